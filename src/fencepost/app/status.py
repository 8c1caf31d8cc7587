"""What is going on now: the backlog, who leads, and which delivery is in force."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

from fencepost.app import build
from fencepost.app.findings import Finding, failed
from fencepost.config import Config
from fencepost.errors import FencepostError
from fencepost.ports import Backlog, Broker, Capabilities, Holder
from fencepost.routes import MAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a broker gives: ``delivery`` is None where it cannot be asked."""

    delivery: str | None
    delivery_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReport:
    """One look.

    ``leader`` is "host:pid:xxxx" and ``term`` the token of its lease, both None where nobody leads.
    ``delivery`` is what the main broker gives, None where it cannot be asked; ``brokers`` says the same of the others,
    by their names. ``problems`` are parts that did not answer; the database is not among them, because without it
    there is no report.
    """

    lane: str
    pending: int
    delayed: int
    parked: int
    oldest_age_s: float | None
    leader: str | None
    term: int | None
    lease_remaining_s: float | None
    led_for_s: float | None
    delivery: str | None
    delivery_reason: str
    problems: tuple[Finding, ...]
    brokers: Mapping[str, Given] = field(default_factory=dict)


class Monitor:
    """Looks again and again without connecting anew each time. Use it as an async context manager."""

    def __init__(self, config: Config) -> None:
        built = build.parts(config)
        self._source, self._leases = built.source, built.leases
        self._brokers: dict[str, Broker] = {
            name: outlet.broker for name, outlet in zip(build.by_broker(config), built.outlets, strict=False)
        }
        self._lane = build.lane(config).name
        self._learnt: dict[str, Capabilities] = {}
        self._leases_open = False

    async def __aenter__(self) -> Monitor:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leases.close()
        await asyncio.gather(*(broker.close() for broker in self._brokers.values()))

    async def holder(self) -> Holder | None:
        """Who has the lease, alone: cheaper than a look. Raises the lease store's own error."""
        if not self._leases_open:
            await self._leases.open()
            self._leases_open = True
        return await self._leases.holder(self._lane)

    async def look(self) -> StatusReport:
        """A report. Raises the database's own error; the others become problems of the report."""
        backlog, (holder, lease_problem), broker_problems = await asyncio.gather(
            self._try_backlog(), self._try_holder(), self._learn_deliveries()
        )
        if isinstance(backlog, FencepostError):
            raise backlog
        leads = holder is not None and holder.remaining_s > 0
        main, *others = (self._given(name) for name in self._brokers)
        return StatusReport(
            lane=self._lane,
            pending=backlog.pending,
            delayed=backlog.delayed,
            parked=backlog.parked,
            oldest_age_s=backlog.oldest_age_s,
            leader=holder.owner if holder and leads else None,
            term=holder.token if holder and leads else None,
            lease_remaining_s=holder.remaining_s if holder and leads else None,
            led_for_s=holder.held_s if holder and leads else None,
            delivery=main.delivery,
            delivery_reason=main.delivery_reason,
            problems=tuple(p for p in (lease_problem, *broker_problems) if p is not None),
            brokers=dict(zip([name for name in self._brokers if name != MAIN], others, strict=True)),
        )

    def _given(self, name: str) -> Given:
        learnt = self._learnt.get(name)
        if learnt is None:
            return Given(delivery=None, delivery_reason="")
        return Given(delivery=learnt.delivery.value, delivery_reason=learnt.reason)

    async def _try_backlog(self) -> Backlog | FencepostError:
        """The error is raised only when the other parts have ended too: a connection that is just being made would
        be left open.
        """
        try:
            return await self._source.backlog()
        except FencepostError as error:
            return error

    async def _try_holder(self) -> tuple[Holder | None, Finding | None]:
        try:
            return await self.holder(), None
        except FencepostError as error:
            self._leases_open = False
            return None, failed("lease", error)

    async def _learn_deliveries(self) -> list[Finding | None]:
        return await asyncio.gather(*(self._learn_delivery(name) for name in self._brokers))

    async def _learn_delivery(self, name: str) -> Finding | None:
        """Ask the broker once: what it can give does not change while it runs."""
        if name in self._learnt:
            return None
        try:
            self._learnt[name] = await self._brokers[name].open()
        except FencepostError as error:
            return failed("broker" if name == MAIN else f"brokers.{name}", error)
        return None


async def status(config: Config) -> StatusReport:
    """One look. Raises ConfigurationError, or the database's own error."""
    async with Monitor(config) as monitor:
        return await monitor.look()
