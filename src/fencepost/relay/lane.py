"""One lane in the hands of one owner: take over, settle what is known to be published, then read, publish, settle.

This is the only place where source, broker and lease meet. Two things may break, each on its own: the session (the
connection to the outbox) and the handoff (the right to publish). Whichever is renewed, the lane begins again by
settling the receipts, with nothing read ahead: a new handoff may tell of a batch whose answer was lost, and a new
session may belong to a database that forgot settles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fencepost.clock import Clock
from fencepost.errors import (
    ConnectionLost,
    DeadlineExceeded,
    Fenced,
    FencepostError,
    FixError,
    LeaseLost,
    RetryError,
    Unavailable,
)
from fencepost.events import (
    DatabaseFellBack,
    NotSettled,
    Observer,
    OwnerFenced,
    Published,
    ReceiptsSettled,
    Settled,
    TakenOver,
)
from fencepost.message import Entity, Stored, entity_of
from fencepost.ports import Broker, Capabilities, Delivery, Handoff, Lane, Outcome, Session, Source, Term
from fencepost.receipt import Receipts, digest
from fencepost.relay.known import Known
from fencepost.relay.order import Order, waves
from fencepost.relay.reader import Reader
from fencepost.relay.refusals import Refusals
from fencepost.relay.retry import Backoff, Circuit
from fencepost.relay.silence import Silence

T = TypeVar("T")

WAVES_S = 1.0
"""How long a batch goes on with second and later messages of its keys: other keys must not wait for those of a few."""

_CANCEL_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOptions:
    """How a lane works. ``batch`` counts messages, ``batch_bytes`` payload bytes (an aim: the average of what was
    read decides).

    ``publish_timeout_s`` is how long a publish may take; on a broker without a fence none is begun that could outlive
    the lease.
    """

    batch: int = 2000
    batch_bytes: int = 4_000_000
    poll_s: float = 5.0
    max_attempts: int = 10
    park: bool = True
    retry_base_s: float = 0.1
    retry_cap_s: float = 30.0
    publish_timeout_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Ownership:
    """What a lane knows of its lease. ``lost`` is set when the term is over; ``trusted_for_s()`` is at most 0 some
    time before.
    """

    term: Term
    lost: asyncio.Event
    trusted_for_s: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a lane works with. ``takes`` says which messages are its broker's, None that all are."""

    source: Source
    broker: Broker
    capabilities: Capabilities
    circuit: Circuit
    observer: Observer
    clock: Clock
    takes: Callable[[Stored], bool] | None = None


class LaneRun:
    """One term on one lane."""

    def __init__(self, lane: Lane, ownership: Ownership, parts: Parts, options: LaneOptions) -> None:
        self._lane, self._own, self._options = lane, ownership, options
        self._source, self._broker, self._capabilities = parts.source, parts.broker, parts.capabilities
        self._takes = parts.takes
        self._circuit, self._observer, self._clock = parts.circuit, parts.observer, parts.clock
        self._fenced = parts.capabilities.delivery is Delivery.ATOMIC
        self._marks = parts.capabilities.delivery is Delivery.PLAIN
        self._handoff: Handoff | None = None
        self._session: Session | None = None
        self._order = Order(self._clock)
        self._known = Known(lane.name, parts.observer, self._trusted_until_s, fenced=self._fenced)
        self._ends: list[asyncio.Future[Any]] = []
        self._silence = Silence(lane.name, self._observer, self._clock)
        backoff = Backoff(options.retry_base_s, options.retry_cap_s, parts.clock)
        most = options.max_attempts if options.park else None
        self._refusals = Refusals(lane.name, self._known, parts.circuit, backoff, parts.observer, attempts_max=most)

    async def run(self, drain: asyncio.Event) -> None:
        """Work until ``drain`` is set and what is in hand is settled. Raises StopError where somebody else is in
        charge.
        """
        self._ends = [asyncio.ensure_future(event.wait()) for event in (drain, self._own.lost)]
        try:
            async with self._silence.watched():
                while not drain.is_set():
                    try:
                        await self._work(drain)
                    except (RetryError, FixError) as error:
                        await self._pause(self._circuit.failed(error), drain)
        finally:
            for end in self._ends:
                end.cancel()
            await self._drop_handoff()
            await self._drop_session()

    async def _work(self, drain: asyncio.Event) -> None:
        self._check_lost()
        if self._handoff is None:
            self._handoff = await self._take_over()
        if self._session is None:
            with self._silence.waiting("connecting to the database"):
                self._session = await self._source.connect()
        with self._silence.waiting("settling in the database"):
            await self._on_session(self._settle_receipts(self._session, self._handoff.receipts))
        self._order = Order(self._clock)
        await self._pump(self._session, self._handoff, drain)

    async def _pause(self, delay_s: float, drain: asyncio.Event) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(delay_s))
        try:
            await self._first(drain, sleeping)
        finally:
            await _cancel(sleeping)

    # -- the beginning -------------------------------------------------------------------------------------------------

    async def _take_over(self) -> Handoff:
        started = self._clock.monotonic()
        with self._silence.waiting("taking over at the broker"):
            handoff = await self._broker.take_over(self._lane, self._own.term)
        duration_s = self._clock.monotonic() - started
        if self._own.lost.is_set():  # it was paused in the middle
            await handoff.close()
            self._check_lost()
        token, receipts = self._own.term.token, len(handoff.receipts)
        self._observer(TakenOver(lane=self._lane.name, token=token, receipts=receipts, duration_s=duration_s))
        return handoff

    async def _settle_receipts(self, session: Session, receipts: Receipts) -> None:
        self._known.receipted(receipts)
        rows = await session.held(receipts.ranges()) if len(receipts) else ()
        named = receipts.named({position for position, _ in rows}) if rows else set()
        published = [(position, id_) for position, id_ in rows if (position, digest(id_)) in named]
        settled = await session.settle(published) if published else 0
        self._observer(ReceiptsSettled(lane=self._lane.name, rows=settled))
        highest = receipts.highest()
        if highest is not None and await session.reserve(highest):
            self._observer(DatabaseFellBack(lane=self._lane.name, position=highest))

    # -- the pump: reading ahead, publishing and settling overlap ----------------------------------------------------

    async def _pump(self, session: Session, handoff: Handoff, drain: asyncio.Event) -> None:
        """Publish until ``drain`` is set or something breaks. On the way out what is in flight finishes."""
        reader = self._reader(session)
        reading: asyncio.Future[Sequence[Stored]] | None = asyncio.ensure_future(self._read(session, reader))
        settling: asyncio.Future[None] | None = None
        settled_keys: set[Entity] = set()
        try:
            while await self._first(drain, reading, settling) or self._is_marked(reading):
                if settling is not None and settling.done():  # one that failed must not wait for the next batch
                    await self._on_session(settling)
                    settling = None
                if reading is None or not reading.done():
                    continue
                batch = self._order.confirm(await self._on_session(reading))
                if settling is not None and self._are_behind(settled_keys, batch):
                    await self._on_session(settling)
                    settling = None
                # Where less waits than a page, reading ahead would only take early what comes while this is published.
                more = reader.more and not drain.is_set()
                reading = asyncio.ensure_future(self._read(session, reader)) if more else None
                published = await self._publish(session, handoff, batch)
                if reading is None and not drain.is_set():
                    reading = asyncio.ensure_future(self._read(session, reader))
                if settling is not None:
                    await self._on_session(settling)
                settling = asyncio.ensure_future(self._settle(session, published))
                settled_keys = self._keys(published)
                self._circuit.succeeded()
        finally:
            if reading is not None:
                await _cancel(reading)
            if settling is not None:
                await self._finish(settling)

    async def _finish(self, settling: asyncio.Future[None]) -> None:
        """Let the last settle end. Where it fails, receipts, or the rows' doubt, tell the next owner what it left."""
        try:
            await self._on_session(settling)
        except (RetryError, FixError) as error:
            self._observer(NotSettled(lane=self._lane.name, cause=str(error)))

    def _reader(self, session: Session) -> Reader:
        most = self._capabilities.batch_max
        return Reader(
            session,
            self._lane,
            self._order,
            self._known,
            limit=self._options.batch if most is None else min(self._options.batch, most),
            page_bytes=self._options.batch_bytes,
            poll_s=self._options.poll_s,
            idle=self._circuit.succeeded,
            clock=self._clock,
            takes=self._takes,
        )

    async def _publish(self, session: Session, handoff: Handoff, batch: Sequence[Stored]) -> Sequence[Stored]:
        """Publish a batch as far as it goes; the messages that are at the broker and not settled yet."""
        if self._fenced:
            return await self._send(session, handoff, batch)
        pieces = waves(batch)
        until = self._clock.monotonic() + WAVES_S
        sent: Sequence[Stored] = ()
        for number, wave in enumerate(pieces):
            if number > 0:
                await self._settle(session, sent)
                sent = ()
                if self._clock.monotonic() > until:
                    self._order.put_off([m for later in pieces[number:] for m in self._order.still(later)])
                    break
            sent = await self._send(session, handoff, self._order.still(wave))
        return sent

    async def _send(self, session: Session, handoff: Handoff, batch: Sequence[Stored]) -> Sequence[Stored]:
        """Publish what may be under way at once; the same of it."""
        sent: list[Stored] = []
        rest = batch
        while rest:
            if not self._fenced:
                self._check_trust()
            outcome = await self._hand_off(handoff, rest)
            sent += outcome.published
            if outcome.failed:
                await self._settle(session, sent)
                sent = []
                await self._on_session(self._refusals.set_aside(session, self._order, outcome.failed))
            rest = self._leave_behind(rest, outcome)
        return sent

    def _leave_behind(self, tried: Sequence[Stored], outcome: Outcome) -> Sequence[Stored]:
        """What may be tried again at once. The others are in no hand any more: a row that is in hand is skipped without
        its key, which is right only for a row that is on its way.
        """
        again = self._order.rest(tried, outcome)
        if outcome.failed:
            kept = {m.position for m in (*outcome.published, *again)}
            self._order.let_go([m for m in tried if m.position not in kept])
        return again

    async def _hand_off(self, handoff: Handoff, batch: Sequence[Stored]) -> Outcome:
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(None if self._fenced else self._options.publish_timeout_s):
                with self._silence.waiting("publishing to the broker"):
                    outcome = await handoff.publish(batch)
        except TimeoutError:
            await self._drop_handoff()
            raise DeadlineExceeded(f"a publish took longer than {self._options.publish_timeout_s:g} s") from None
        except Fenced as error:
            self._observer(OwnerFenced(lane=self._lane.name, token=self._own.term.token, cause=str(error)))
            raise
        except FencepostError:
            await self._drop_handoff()
            raise
        if not outcome.published and not outcome.failed:
            raise Unavailable("the broker neither took nor refused a single message of a batch")
        if outcome.published:
            self._known.done(outcome.published)
            self._circuit.topics_succeeded(outcome.published)
            self._observer(self._report(outcome.published, self._clock.monotonic() - started))
        return outcome

    def _report(self, messages: Sequence[Stored], duration_s: float) -> Published:
        return Published(
            lane=self._lane.name,
            messages=len(messages),
            payload_bytes=sum([len(m.payload) if m.payload else 0 for m in messages]),
            duration_s=duration_s,
            oldest_age_s=(self._clock.now() - messages[0].occurred_at).total_seconds(),
        )

    async def _settle(self, session: Session, messages: Sequence[Stored]) -> None:
        if not messages:
            return
        with self._silence.waiting("settling in the database"):
            rows = await self._on_session(session.settle([(m.position, m.id) for m in messages]))
        self._order.let_go(messages)
        self._observer(Settled(lane=self._lane.name, rows=rows, expected=len(messages)))

    # -- brokers without a fence -------------------------------------------------------------------------------------

    async def _read(self, session: Session, reader: Reader) -> Sequence[Stored]:
        """The next rows that may be sent. Where a repeat is to say that it is one, they are in doubt from here on: the
        mark is written while the batch before them is published.
        """
        rows = await reader.next()
        if self._marks:
            await session.in_doubt(rows, self._own.term.token)
        return rows

    def _is_marked(self, reading: asyncio.Future[Sequence[Stored]] | None) -> bool:
        """A batch that has its mark is published in a drain too: its rows would come later as what they are not."""
        return self._marks and reading is not None and reading.done()

    def _keys(self, messages: Sequence[Stored]) -> set[Entity]:
        return set() if self._fenced else {entity_of(m) for m in messages}

    def _are_behind(self, keys: set[Entity], batch: Sequence[Stored]) -> bool:
        """Something of these keys is in the batch. Nothing of a key is sent before what was sent of it is settled: a
        repeat never comes after a later message.
        """
        return bool(keys) and any(entity_of(m) in keys for m in batch)

    def _check_trust(self) -> None:
        """Begin no publish that could outlive the lease."""
        if self._own.trusted_for_s() < self._options.publish_timeout_s:
            raise LeaseLost(f"the lease of lane {self._lane.name} ends before a publish could time out")

    # -- what may break ----------------------------------------------------------------------------------------------

    async def _on_session(self, call: Awaitable[T]) -> T:
        """Await a call on the session. After an error that ends it, it is dropped."""
        try:
            return await call
        except (ConnectionLost, DeadlineExceeded):
            await self._drop_session()
            raise

    def _trusted_until_s(self) -> float:
        return self._clock.monotonic() + self._own.trusted_for_s()

    async def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _drop_handoff(self) -> None:
        handoff, self._handoff = self._handoff, None
        if handoff is not None:
            await handoff.close()

    async def _first(self, drain: asyncio.Event, *futures: asyncio.Future[Any] | None) -> bool:
        """Wait for one of the futures, the drain or the end of the term. True where a future is done and no drain."""
        wanted = [future for future in futures if future is not None]
        await asyncio.wait([*wanted, *self._ends], return_when=asyncio.FIRST_COMPLETED)
        self._check_lost()
        return any(future.done() for future in wanted) and not drain.is_set()

    def _check_lost(self) -> None:
        if self._own.lost.is_set():
            raise LeaseLost(f"the lease of lane {self._lane.name} (term {self._own.term.token}) is over")


async def _cancel(future: asyncio.Future[Any]) -> None:
    """End a task and take its result, whatever it is. A library may swallow a cancellation, so it is told twice."""
    future.cancel()
    again = asyncio.get_running_loop().call_later(_CANCEL_AGAIN_S, future.cancel)
    try:
        await asyncio.gather(future, return_exceptions=True)
    finally:
        again.cancel()
