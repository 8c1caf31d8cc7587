"""The relay: campaign for a lane, work on it while the lease lasts, campaign again. One process, one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.errors import (
    ConfigurationError,
    FencepostError,
    FixError,
    GuaranteeUnavailable,
    LeaseLost,
    RetryError,
    StopError,
)
from fencepost.events import Observer, OutboxLimited, RelayFailed, RelayStarted, ignore
from fencepost.leases import Leadership, Tenure
from fencepost.ports import Broker, Capabilities, Delivery, Lane, LeaseStore, Limited, Purging, Source
from fencepost.relay.lane import LaneOptions, LaneRun, Ownership, Parts
from fencepost.relay.outlet import Outlet
from fencepost.relay.purging import Purge
from fencepost.relay.retry import Backoff, Circuit
from fencepost.relay.silence import Silence

T = TypeVar("T")

DELIVERIES = ("auto", "exactly-once", "deduplicated", "at-least-once")
ON_POISON = ("park", "block")

_WARM_EVERY_S = 30.0
_PUBLISH_SHARE = 0.4  # of the lease; renewed every third of it, the lease is always trusted for longer than this
_STRENGTH = {Delivery.PLAIN: 0, Delivery.DEDUPLICATING: 1, Delivery.ATOMIC: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOptions:
    """How a relay works.

    batch: messages of one handoff at most. batch_bytes: payload bytes of one handoff, about. ttl_s: the lease's length.
    poll_s: how often an idle relay looks without having been woken. max_attempts: tries of one message that fails
    alone, before it is parked (``on_poison`` "park") - or, with "block", never: its key waits until somebody acts.
    delivery: "auto" takes the strongest that the broker gives; another value refuses to start where it gives less.
    retry_base_s, retry_cap_s: back-off. retention_s: where settled rows stay, how long; None for ever.
    """

    batch: int = 2000
    batch_bytes: int = 4_000_000
    ttl_s: float = 5.0
    poll_s: float = 5.0
    max_attempts: int = 10
    on_poison: str = "park"
    delivery: str = "auto"
    retry_base_s: float = 0.1
    retry_cap_s: float = 30.0
    retention_s: float | None = None

    def __post_init__(self) -> None:
        for name, known in (("delivery", DELIVERIES), ("on_poison", ON_POISON)):
            if getattr(self, name) not in known:
                raise ConfigurationError(f"{name} = {getattr(self, name)!r}", remedy=f"it is one of {', '.join(known)}")

    def lane_options(self) -> LaneOptions:
        """The part that concerns a lane."""
        return LaneOptions(
            batch=self.batch,
            batch_bytes=self.batch_bytes,
            poll_s=self.poll_s,
            max_attempts=self.max_attempts,
            park=self.on_poison == "park",
            retry_base_s=self.retry_base_s,
            retry_cap_s=self.retry_cap_s,
            publish_timeout_s=self.ttl_s * _PUBLISH_SHARE,
        )


def require(delivery: str, capabilities: Capabilities, source: object = None) -> None:
    """Raise GuaranteeUnavailable where the broker gives less than the configured delivery, or than the source needs."""
    given = capabilities.delivery
    marks_doubt = source.marks_doubt if isinstance(source, Limited) else True
    if given is Delivery.PLAIN and not marks_doubt:
        raise GuaranteeUnavailable(
            "this broker may repeat messages, and this outbox has no state for what is being sent: a repeat "
            "could not be marked",
            remedy="use a broker that recognises repeats; of an existing table, name [existing] state and in_doubt",
        )
    if delivery != "auto" and _STRENGTH[given] < _STRENGTH[Delivery(delivery)]:
        raise GuaranteeUnavailable(
            f"delivery = {delivery!r} is asked for, but this broker gives {given.value!r}"
            + (f" ({capabilities.reason})" if capabilities.reason else ""),
            remedy=f'set delivery = "{given.value}" or "auto", or use a broker that can',
        )


def weakest(capabilities: Sequence[Capabilities]) -> Capabilities:
    """Those that promise least."""
    return min(capabilities, key=lambda each: _STRENGTH[each.delivery])


class Relay:
    """Publishes the messages of one outbox on one lane. ``owner`` names this process to people ("host:pid").

    ``broker`` may be several outlets; then the lane of each is worked on while this relay has the lease.
    """

    def __init__(
        self,
        source: Source,
        broker: Broker | Sequence[Outlet],
        leases: LeaseStore,
        lane: Lane,
        owner: str,
        options: RelayOptions | None = None,
        observer: Observer = ignore,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._source, self._leases = source, leases
        self._outlets = broker if isinstance(broker, Sequence) else [Outlet(broker, lane)]
        self._lane, self._owner, self._options = lane, owner, options or RelayOptions()
        self._observer, self._clock = observer, clock
        self._drain = asyncio.Event()
        self._backoff = Backoff(self._options.retry_base_s, self._options.retry_cap_s, clock)
        self.circuit = Circuit(lane.name, self._backoff, observer)
        """Whether the relay gets on, and if not why; of several outlets that of the first."""
        for outlet in self._outlets:
            is_first = outlet is self._outlets[0]
            outlet.circuit = self.circuit if is_first else Circuit(outlet.lane.name, self._backoff, observer)

    @property
    def cause(self) -> str | None:
        """Why the relay, one of its outlets, or a topic cannot go on; None while all is well."""
        circuits = [outlet.circuit for outlet in self._outlets]
        causes = [circuit.cause for circuit in circuits if circuit.cause is not None]
        causes += [f"topic {topic}: {cause}" for circuit in circuits for topic, cause in circuit.held.items()]
        return causes[0] if causes else None

    def stop(self) -> None:
        """Publish and settle what is in hand, release the lease, end ``run``."""
        self._drain.set()

    async def run(self) -> None:
        """Work until ``stop``. Raises FixError for what a person must change before it can start; faults that pass
        are waited for.
        """
        try:
            if await self._until_it_works():
                await self._serve()
        finally:
            await self._leases.close()
            for outlet in self._outlets:
                await outlet.broker.close()

    async def _until_it_works(self) -> bool:
        """Open everything once, so that what a person must change is said at once. False where ``stop`` came first."""
        silence = Silence(self._lane.name, self._observer, self._clock)
        async with silence.watched():
            return await self._open_patiently(silence)

    async def _open_patiently(self, silence: Silence) -> bool:
        while not self._drain.is_set():
            try:
                with silence.waiting("connecting"):
                    opened = await self._unless_stopped(self._open())
            except RetryError as error:
                await self._sleep(self.circuit.failed(error))
                continue
            if opened:
                self._tell_start(opened)
                return True
        return False

    def _tell_start(self, opened: Sequence[Capabilities]) -> None:
        if self._outlets[0].capabilities is not None:
            self.circuit.succeeded()
        delivery = weakest(opened).delivery.value
        self._observer(RelayStarted(lane=self._lane.name, owner=self._owner, delivery=delivery))
        if isinstance(self._source, Limited):
            self._observer(OutboxLimited(lane=self._lane.name, limits=tuple(self._source.limits)))

    async def _open(self) -> Sequence[Capabilities]:
        """Try every server, whatever becomes of one: a missing table is told also while the broker is down.

        Of several brokers one that can be used is enough to begin.
        """
        brokers = [self._open_outlet(outlet) for outlet in self._outlets]
        results = await asyncio.gather(*brokers, self._open_leases(), self._try_source(), return_exceptions=True)
        errors = [e for e in results if isinstance(e, BaseException)]
        opened = [c for c in results if isinstance(c, Capabilities)]
        if opened:
            errors = [e for e in errors if not isinstance(e, RetryError) or e in results[len(brokers) :]]
        for error in sorted(errors, key=lambda e: isinstance(e, RetryError)):  # what a person must mend comes first
            raise error
        return opened

    async def _open_outlet(self, outlet: Outlet) -> Capabilities:
        outlet.capabilities = None
        capabilities = await outlet.broker.open()
        require(self._options.delivery, capabilities, self._source)
        await outlet.broker.prepare(outlet.lane)
        outlet.capabilities = capabilities
        return capabilities

    async def _open_leases(self) -> None:
        await self._leases.open()
        await self._leases.rehearse()

    async def _try_source(self) -> None:
        await (await self._source.connect()).close()

    async def _unless_stopped(self, call: Coroutine[Any, Any, T]) -> T | None:
        """The call's result; None where ``stop`` came first, however long the call would have taken."""
        calling = asyncio.ensure_future(call)
        stopping = asyncio.ensure_future(self._drain.wait())
        try:
            await asyncio.wait([calling, stopping], return_when=asyncio.FIRST_COMPLETED)
            return await calling if calling.done() else None
        finally:
            for task in (calling, stopping):
                task.cancel()
            await asyncio.gather(calling, stopping, return_exceptions=True)

    async def _serve(self) -> None:
        leadership = Leadership(
            self._leases, self._lane.name, self._owner, self._options.ttl_s, clock=self._clock, observer=self._observer
        )
        while not self._drain.is_set():
            tenure = await self._campaign(leadership)
            if tenure is not None:
                await self._lead(tenure)

    async def _campaign(self, leadership: Leadership) -> Tenure | None:
        """Wait for the lease, warm; None where ``stop`` came first or the store needs a person."""
        warming = asyncio.ensure_future(self._keep_warm())
        try:
            return await self._unless_stopped(leadership.campaign())
        except FencepostError as error:
            await self._sleep(self.circuit.failed(error))
            return None
        finally:
            warming.cancel()
            await asyncio.gather(warming, return_exceptions=True)

    async def _keep_warm(self) -> None:
        """A standby that is ready takes over in milliseconds."""
        while True:
            for outlet in self._outlets:
                with suppress(RetryError, FixError):  # the take-over will say so, if it is still so then
                    await outlet.broker.prepare(outlet.lane)
            await self._clock.sleep(_WARM_EVERY_S)

    async def _lead(self, tenure: Tenure) -> None:
        try:
            async with self._purging():
                await self._work(tenure)
        except StopError:  # told to the observer where it was noticed
            # two owners by mistake must not fence each other without a breath
            await self._sleep(self._backoff.delay_s(1))
        except Exception as error:  # noqa: BLE001 - a defect must neither kill the relay silently nor spin
            self._observer(RelayFailed(lane=self._lane.name, cause=f"{type(error).__name__}: {error}", error=error))
            await self._sleep(self.circuit.failed(FencepostError(f"unexpected {type(error).__name__}: {error}")))
        finally:
            await tenure.release()

    async def _work(self, tenure: Tenure) -> None:
        """On every outlet at once, until ``stop`` or until one of them finds that somebody else is in charge."""
        if len(self._outlets) == 1:
            await self._work_on(self._outlets[0], tenure)
            return
        working = [asyncio.ensure_future(self._work_on(outlet, tenure)) for outlet in self._outlets]
        try:
            await asyncio.wait(working, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for work in working:
                work.cancel()
            ends = await asyncio.gather(*working, return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
                raise end

    async def _work_on(self, outlet: Outlet, tenure: Tenure) -> None:
        capabilities = outlet.capabilities or await self._open_late(outlet, tenure)
        if capabilities is None:
            return
        if tenure.term.early and capabilities.delivery is not Delivery.ATOMIC:
            # Nothing will refuse the last owner: where only its session is gone, it publishes while it trusts.
            # A stop waits too: the lease, given back earlier, would be somebody's who does not know of it.
            await self._clock.sleep(self._options.ttl_s)
        ownership = Ownership(tenure.term, tenure.lost, tenure.trusted_for_s)
        parts = Parts(
            self._source, outlet.broker, capabilities, outlet.circuit, self._observer, self._clock, outlet.takes
        )
        await LaneRun(outlet.lane, ownership, parts, self._options.lane_options()).run(self._drain)

    async def _open_late(self, outlet: Outlet, tenure: Tenure) -> Capabilities | None:
        """Open a broker that could not be opened with the others; None where the relay is to stop first."""
        while not self._drain.is_set():
            if tenure.lost.is_set():
                raise LeaseLost(f"the lease of lane {self._lane.name} is over")
            try:
                return await self._unless_stopped(self._open_outlet(outlet))
            except (RetryError, FixError) as error:
                await self._sleep(outlet.circuit.failed(error))
        return None

    @asynccontextmanager
    async def _purging(self) -> AsyncIterator[None]:
        """The owner of the first lane does it for the whole outbox."""
        retention_s = self._options.retention_s
        if retention_s is None or self._lane.index or not isinstance(self._source, Purging):
            yield
            return
        purge = Purge(self._source, self._lane.name, retention_s, self._observer, self._clock)
        running = asyncio.ensure_future(purge.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _sleep(self, delay_s: float) -> None:
        await self._unless_stopped(self._clock.sleep(delay_s))
