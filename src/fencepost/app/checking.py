"""Does it work, and what can it promise? Connects to everything that a configuration names and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from fencepost.app import build
from fencepost.app.findings import Finding, Level, failed
from fencepost.config import Config, mask_url
from fencepost.errors import FencepostError, SchemaMissing
from fencepost.ports import Broker, Capabilities, Delivery, Lane, LeaseStore, Limited, Source
from fencepost.relay.service import require, weakest
from fencepost.words import counted

_MAKES_TABLES = "`fencepost schema apply`"
_TABLES_REMEDY = f"run {_MAKES_TABLES}, or hand the output of `fencepost schema print` to whoever may create tables"

_PARKED_REMEDY = (
    "`fencepost parked list` says why; once that is mended, `fencepost parked retry` has them tried again, and"
    " `fencepost parked discard` gives them up"
)


@runtime_checkable
class Advising(Protocol):
    """A source or a broker that can say how its server would serve better."""

    async def advice(self) -> Sequence[str]:
        """One line for each thing that could be better; nothing where it is well set up."""
        ...


@runtime_checkable
class Rehearsing(Protocol):
    """A broker that can say whether what a relay would create there could be created."""

    async def rehearse(self, lane: Lane) -> None:
        """Raise FixError for what would be refused; change nothing. The broker is open."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What was found, part by part.

    ``delivery_possible`` is what the broker can give, ``delivery_in_force`` what a relay of this configuration gives;
    None where that could not be learnt, or where no relay would publish now. ``delivery_reason`` is one line.
    """

    findings: tuple[Finding, ...]
    delivery_possible: str | None
    delivery_in_force: str | None
    delivery_reason: str

    @property
    def ok(self) -> bool:
        """True where nothing is an error."""
        return not self._errors

    @property
    def waits(self) -> bool:
        """True where there are errors and a relay would wait for the end of each: servers that cannot be reached."""
        return bool(self._errors) and all(finding.passes for finding in self._errors)

    @property
    def _errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]


async def check(config: Config) -> CheckReport:
    """Connect to the database, the lease store and the broker. Errors are findings; none is raised."""
    database, lease, (broker, capabilities) = await asyncio.gather(
        _guarded("database", lambda: _database(config)), _guarded("lease", lambda: _lease(config)), _brokers(config)
    )
    if config.lease_url == config.database.url:
        lease = _besides_the_same(database, lease)
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


def _besides_the_same(database: Sequence[Finding], lease: Sequence[Finding]) -> list[Finding]:
    """The lease's findings without errors that have the database's cause: a server that is away, tables that are not
    there, of which the database's finding names all.
    """
    told = {finding.remedy for finding in database if finding.level == "error"}
    return [f for f in lease if not (told and f.level == "error" and (f.remedy in told or _MAKES_TABLES in f.remedy))]


async def _guarded(part: str, look: Callable[[], Awaitable[list[Finding]]]) -> list[Finding]:
    try:
        return await look()
    except FencepostError as error:
        return [failed(part, error)]


async def _database(config: Config) -> list[Finding]:
    shown = mask_url(config.database.url)
    missing = await build.schema(config).missing()
    source = build.source(config)
    if missing:
        return [_missing(config, missing), *await _besides(source)]
    session = await source.connect()
    await session.close()
    backlog = await source.backlog()
    what = f"{shown}: connected, {counted(backlog.pending, 'message')} waiting"
    findings = [
        Finding(part="database", level="ok", what=what),
        *await _advice(source),
        *_retention(config),
    ]
    if isinstance(source, Limited):
        findings += [Finding(part="database", level="warning", what=f"limit: {line}") for line in source.limits]
    if backlog.parked:
        what = f"{counted(backlog.parked, 'message')} parked"
        findings.append(Finding(part="database", level="warning", what=what, remedy=_PARKED_REMEDY))
    return findings


def _missing(config: Config, missing: Sequence[str]) -> Finding:
    not_made = any(name.endswith(f"{config.database.prefix}outbox") for name in missing)
    those = "tables" if not_made else "tables, or parts of them,"
    what = f"{mask_url(config.database.url)}: these {those} are missing: {', '.join(missing)}"
    return Finding(part="database", level="error", what=what, remedy=_TABLES_REMEDY)


async def _besides(source: Source) -> list[Finding]:
    """What is wrong besides tables that are missing, so that all of it can be mended in one go."""
    try:
        session = await source.connect()
    except FencepostError as error:
        return [] if _MAKES_TABLES in error.remedy else [failed("database", error)]
    await session.close()
    return []


async def _advice(of: Source | Broker, part: str = "database") -> list[Finding]:
    lines = await of.advice() if isinstance(of, Advising) else ()
    return [Finding(part=part, level="warning", what=line) for line in lines]


def _retention(config: Config) -> list[Finding]:
    if config.database.settle != "mark" or config.database.retention_s is not None:
        return []
    remedy = "set [database] retention_s (seconds), or run `fencepost purge --older-than ...` from time to time"
    return [Finding(part="database", level="warning", what="settled rows stay for ever", remedy=remedy)]


async def _lease(config: Config) -> list[Finding]:
    store = build.lease_store(config)
    try:
        await store.open()
        await store.rehearse()
        return [Finding(part="lease", level="ok", what=f"{mask_url(config.lease_url)}: {await _holder(config, store)}")]
    finally:
        await store.close()


async def _holder(config: Config, store: LeaseStore) -> str:
    name = build.lane(config).name
    holder = await store.holder(name)
    fences = f"a token fences {store.fences}"
    if holder is None or holder.remaining_s <= 0:
        return f"nobody leads {name}; {fences}"
    return f"{holder.owner} leads {name} (term {holder.token}); {fences}"


async def _brokers(config: Config) -> tuple[list[Finding], Capabilities | None]:
    """What is found of each, and what the weakest of them gives; None where one could not be asked."""
    given: list[Capabilities | None] = []
    findings = await _guarded("broker", lambda: _routes(config))
    for each in build.by_broker(config).values():
        found, capabilities = await _broker(each)
        findings += found
        given.append(capabilities)
    known = [c for c in given if c is not None]
    return findings, weakest(known) if len(known) == len(given) else None


async def _routes(config: Config) -> list[Finding]:
    """The route function must be there; the rest of the routes was checked when the configuration was read."""
    build.routes(config)
    return []


async def _broker(config: Config) -> tuple[list[Finding], Capabilities | None]:
    try:
        capabilities, advice = await _opened(config)
        await _look(config)
    except FencepostError as error:
        return [failed("broker", error)], None
    shown = mask_url(config.broker.url, show_user=False)
    what = f"{shown}: connected, can deliver {capabilities.delivery.value}"
    return [Finding(part="broker", level="ok", what=what), *advice], capabilities


async def _opened(config: Config) -> tuple[Capabilities, list[Finding]]:
    broker = build.broker(config)
    try:
        capabilities = await broker.open()
        if isinstance(broker, Rehearsing):
            await broker.rehearse(build.lane(config))
        return capabilities, await _advice(broker, "broker")
    finally:
        await broker.close()


async def _look(config: Config) -> None:
    """What is there already must be right, also where what is missing may be created: looking must not create it."""
    broker = build.broker(replace(config, broker=replace(config.broker, create=False)))
    try:
        await broker.open()
        await broker.prepare(build.lane(config))
    except SchemaMissing:
        if not config.broker.create:
            raise
    finally:
        await broker.close()


def _delivery(config: Config, capabilities: Capabilities, *, stopped: bool) -> list[Finding]:
    try:
        require(config.relay.delivery, capabilities, None if stopped else build.source(config))
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
