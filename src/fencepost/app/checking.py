"""Does it work, and what can it promise? Connects to everything that a configuration names and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fencepost.app import build
from fencepost.app.findings import Finding, Level, failed
from fencepost.config import Config, mask_url
from fencepost.errors import FencepostError
from fencepost.ports import Broker, Capabilities, Delivery, LeaseStore
from fencepost.relay.service import require

_TABLES_REMEDY = (
    "run `fencepost schema apply`, or hand the output of `fencepost schema print` to whoever may create tables"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What was found, part by part.

    ``delivery_possible`` is what the broker can give, ``delivery_in_force`` what a relay of this configuration gives;
    None where that could not be learnt, or where a relay would refuse to start. ``delivery_reason`` is one line.
    """

    findings: tuple[Finding, ...]
    delivery_possible: str | None
    delivery_in_force: str | None
    delivery_reason: str

    @property
    def ok(self) -> bool:
        """True where nothing is an error."""
        return all(finding.level != "error" for finding in self.findings)


async def check(config: Config) -> CheckReport:
    """Connect to the database, the lease store and the broker. Errors are findings; none is raised."""
    database, lease, (broker, capabilities) = await asyncio.gather(
        _guarded("database", lambda: _database(config)), _guarded("lease", lambda: _lease(config)), _broker(config)
    )
    stopped = any(finding.level == "error" for finding in (*database, *lease))
    delivery = _delivery(config, capabilities, stopped=stopped) if capabilities else []
    findings = (*database, *lease, *broker, *delivery)
    possible = capabilities.delivery.value if capabilities else None
    refused = any(finding.level == "error" for finding in findings)
    return CheckReport(
        findings=findings,
        delivery_possible=possible,
        delivery_in_force=None if refused else possible,
        delivery_reason=_reason(config, capabilities),
    )


async def _guarded(part: str, look: Callable[[], Awaitable[list[Finding]]]) -> list[Finding]:
    try:
        return await look()
    except FencepostError as error:
        return [failed(part, error)]


async def _database(config: Config) -> list[Finding]:
    shown = mask_url(config.database.url)
    missing = await build.schema(config).missing()
    if missing:
        what = f"{shown}: connected, but these tables are missing: {', '.join(missing)}"
        return [Finding(part="database", level="error", what=what, remedy=_TABLES_REMEDY)]
    source = build.source(config)
    session = await source.connect()
    await session.close()
    backlog = await source.backlog()
    findings = [Finding(part="database", level="ok", what=f"{shown}: connected, {backlog.pending:,} messages wait")]
    if backlog.parked:
        what = f"{backlog.parked:,} messages are parked"
        findings.append(
            Finding(part="database", level="warning", what=what, remedy="their rows say why (column reason)")
        )
    return findings


async def _lease(config: Config) -> list[Finding]:
    store = build.lease_store(config)
    try:
        return [Finding(part="lease", level="ok", what=f"{mask_url(config.lease_url)}: {await _holder(config, store)}")]
    finally:
        await store.close()


async def _holder(config: Config, store: LeaseStore) -> str:
    await store.open()
    name = build.lane(config).name
    holder = await store.holder(name)
    fences = f"a token fences {store.fences}"
    if holder is None or holder.remaining_s <= 0:
        return f"nobody leads {name}; {fences}"
    return f"{holder.owner} leads {name} (term {holder.token}); {fences}"


async def _broker(config: Config) -> tuple[list[Finding], Capabilities | None]:
    try:
        broker = build.broker(config)
    except FencepostError as error:
        return [failed("broker", error)], None
    try:
        capabilities = await broker.open()
        await _prepared(config, broker)
    except FencepostError as error:
        return [failed("broker", error)], None
    finally:
        await broker.close()
    shown = mask_url(config.broker.url, show_user=False)
    return [
        Finding(part="broker", level="ok", what=f"{shown}: connected, can deliver {capabilities.delivery.value}")
    ], capabilities


async def _prepared(config: Config, broker: Broker) -> None:
    """Where nothing may be created, what the relay needs must be there already. Otherwise looking would create it."""
    if not config.broker.create:
        await broker.prepare(build.lane(config))


def _delivery(config: Config, capabilities: Capabilities, *, stopped: bool) -> list[Finding]:
    try:
        require(config.relay.delivery, capabilities)
    except FencepostError as error:
        return [failed("delivery", error)]
    given = capabilities.delivery.value  # a relay takes the strongest that there is, whatever the least was to be
    if stopped:
        return [
            Finding(part="delivery", level="warning", what=f"{given} is possible, once the errors above are mended")
        ]
    what = f"{given} is possible and in force ({_reason(config, capabilities)})"
    level: Level = "ok" if capabilities.delivery is Delivery.ATOMIC else "warning"
    return [Finding(part="delivery", level=level, what=what)]


def _reason(config: Config, capabilities: Capabilities | None) -> str:
    if capabilities is None:
        return "the broker could not be asked"
    asked = f'delivery = "{config.relay.delivery}"'
    why = capabilities.reason or "batch and receipt become visible together, and earlier owners are fenced"
    return f"{asked}; {why}"
