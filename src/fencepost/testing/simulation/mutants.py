"""Deliberate weakenings of the real code: the simulator must notice every one of them, or it proves nothing.

Each takes one rule away and says which. They are applied to the classes while a block runs, never in production.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fencepost.brokers.memory import MemoryHandoff
from fencepost.databases.memory import MemorySession, Transaction
from fencepost.elections.memory import MemoryLeases
from fencepost.leases import Tenure
from fencepost.message import Position, Stored
from fencepost.ports import Delivery, Failure, Lane, Outcome, Session
from fencepost.receipt import Receipt, Receipts
from fencepost.relay import lane as lane_module
from fencepost.relay.lane import LaneRun
from fencepost.relay.order import Order
from fencepost.relay.refusals import Refusals
from fencepost.relay.service import Relay

Weakening = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """``where`` are the fields of a scenario in which it shows."""

    name: str
    rule: str
    where: Mapping[str, Any]
    weakening: Weakening


@contextmanager
def _replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


# -- the handoff -------------------------------------------------------------------------------------------------------


def _no_fence() -> AbstractContextManager[None]:
    original = MemoryHandoff._take_all_or_nothing

    def take(self: MemoryHandoff, batch: Sequence[Stored], failures: Sequence[Failure]) -> Outcome:
        self._fence = self._lane.fence
        return original(self, batch, failures)

    return _replaced(MemoryHandoff, "_take_all_or_nothing", take)


def _no_receipts() -> AbstractContextManager[None]:
    async def settle(self: LaneRun, session: Session, receipts: Receipts) -> None:
        """Look at no receipt."""

    return _replaced(LaneRun, "_settle_receipts", settle)


def _one_receipt() -> AbstractContextManager[None]:
    original = MemoryHandoff._take_all_or_nothing

    def take(self: MemoryHandoff, batch: Sequence[Stored], failures: Sequence[Failure]) -> Outcome:
        self._lane.receipts = deque(self._lane.receipts, maxlen=1)
        return original(self, batch, failures)

    return _replaced(MemoryHandoff, "_take_all_or_nothing", take)


def _receipt_apart() -> AbstractContextManager[None]:
    original = MemoryHandoff._take_all_or_nothing

    def take(self: MemoryHandoff, batch: Sequence[Stored], failures: Sequence[Failure]) -> Outcome:
        outcome = original(self, batch, failures)
        if outcome.published and self._server.gate.latency_s == 0:
            self._lane.receipts.pop()  # "written afterwards", and the relay died first
        return outcome

    return _replaced(MemoryHandoff, "_take_all_or_nothing", take)


def _no_digest() -> AbstractContextManager[None]:
    original = Receipt.of

    def of(batch: Sequence[Stored], **facts: Any) -> Receipt:
        receipt = original(batch, **facts)
        return Receipt(**{name: getattr(receipt, name) for name in _OTHERS}, digests=(0,) * len(batch))

    return _both(_replaced(Receipt, "of", staticmethod(of)), _replaced(lane_module, "digest", lambda _: 0))


_OTHERS = ("fence", "counter", "token", "owner", "positions")


def _settles_only_once() -> AbstractContextManager[None]:
    original = LaneRun._settle_receipts

    async def settle(self: LaneRun, session: Session, receipts: Receipts) -> None:
        if getattr(self, "settled_for", None) is not self._handoff:
            await original(self, session, receipts)
            self.settled_for = self._handoff  # type: ignore[attr-defined]

    return _replaced(LaneRun, "_settle_receipts", settle)


def _settles_first() -> AbstractContextManager[None]:
    original = LaneRun._publish

    async def publish(self: LaneRun, session: Session, handoff: Any, batch: Sequence[Stored]) -> Sequence[Stored]:
        await session.settle([(m.position, m.id) for m in batch])
        return await original(self, session, handoff, batch)

    return _replaced(LaneRun, "_publish", publish)


def _settles_refused() -> AbstractContextManager[None]:
    original = Refusals.set_aside

    async def set_aside(self: Refusals, session: Session, order: Order, failures: Sequence[Failure]) -> None:
        await original(self, session, order, failures)
        await session.settle([(f.message.position, f.message.id) for f in failures])

    return _replaced(Refusals, "set_aside", set_aside)


# -- reading and order -------------------------------------------------------------------------------------------------


def _by_time() -> AbstractContextManager[None]:
    original = MemorySession.pending

    async def pending(self: MemorySession, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        return sorted(await original(self, lane, 10_000), key=lambda m: m.occurred_us)[:limit]

    return _replaced(MemorySession, "pending", pending)


def _cursor() -> AbstractContextManager[None]:
    original = MemorySession.pending

    async def pending(self: MemorySession, lane: Lane, limit: int, after: Position | None = None) -> Sequence[Stored]:
        seen = getattr(self, "highest_seen", 0)
        rows = await original(self, lane, limit, max(seen, int(after or 0)))
        self.highest_seen = max([seen, *(int(m.position) for m in rows)])  # type: ignore[attr-defined]
        return rows

    return _replaced(MemorySession, "pending", pending)


def _pages_blindly() -> AbstractContextManager[None]:
    async def below(self: MemorySession, lane: Lane, position: Position, limit: int) -> Sequence[Position]:
        return ()

    return _replaced(MemorySession, "below", below)


def _no_entity_lock() -> AbstractContextManager[None]:
    def draw(self: Transaction, message: Any, key: str) -> int:
        return self._database._state.versions.get((message.topic, key), 0) + 1

    return _replaced(Transaction, "_draw", draw)


def _in_hand_forgotten() -> AbstractContextManager[None]:
    return _replaced(Order, "free", lambda _, rows: rows)


def _key_does_not_wait() -> AbstractContextManager[None]:
    def wait(self: Order, message: Stored, delay_s: float) -> None:
        """Let its key go on."""

    return _replaced(Order, "wait", wait)


def _read_ahead_kept() -> AbstractContextManager[None]:
    def confirm(self: Order, chosen: Sequence[Stored]) -> Sequence[Stored]:
        self._failed.clear()
        return chosen

    return _replaced(Order, "confirm", confirm)


def _many_per_key() -> AbstractContextManager[None]:
    def waves(batch: Sequence[Stored]) -> list[list[Stored]]:
        return [list(batch)]

    return _replaced(lane_module, "waves", waves)


# -- leases and doubt --------------------------------------------------------------------------------------------------


def _no_token() -> AbstractContextManager[None]:
    def current(self: MemoryLeases, term: Any) -> Any:
        return self._lease(term.name)

    return _replaced(MemoryLeases, "_current", current)


def _given_to_anybody() -> AbstractContextManager[None]:
    def acquire(self: MemoryLeases, name: str, owner: str, ttl_s: float, session: Any) -> Any:
        return self._give(name, owner, ttl_s, session, early=False)

    return _replaced(MemoryLeases, "_acquire", acquire)


def _trust_from_the_answer() -> AbstractContextManager[None]:
    original = Tenure._trust

    def trust(self: Tenure, started_s: float) -> None:
        original(self, self._clock.monotonic())

    return _replaced(Tenure, "_trust", trust)


def _trust_without_end() -> AbstractContextManager[None]:
    return _replaced(Tenure, "trusted_for_s", lambda _: 3600.0)


def _at_once() -> AbstractContextManager[None]:
    original = Relay._lead

    async def lead(self: Relay, tenure: Tenure) -> None:
        tenure.term = replace(tenure.term, early=False)
        await original(self, tenure)

    return _replaced(Relay, "_lead", lead)


def _no_doubt() -> AbstractContextManager[None]:
    async def in_doubt(self: MemorySession, rows: Sequence[Stored], token: int) -> None:
        """Mark nothing."""

    return _replaced(MemorySession, "in_doubt", in_doubt)


@contextmanager
def _both(one: AbstractContextManager[None], other: AbstractContextManager[None]) -> Iterator[None]:
    with one, other:
        yield


_ATOMIC: dict[str, Any] = {"delivery": Delivery.ATOMIC}
_PLAIN: dict[str, Any] = {"delivery": Delivery.PLAIN}
_REFUSING: dict[str, Any] = {"poison": 0.5, "keys": 1, "batch": 10}
_BUSY: dict[str, Any] = {"relays": 3, "writers": 3, "transactions": 24, "batch": 1, "poison": 0.0, "struck": 0.0}
_EVIDENCE: dict[str, Any] = _PLAIN | _BUSY | {"evidence": True, "ttl_s": 5.0, "unrest_s": 0.3, "trouble_s": 12.0}
_PAGING: dict[str, Any] = {"batch": 1, "keys": 1, "writers": 3, "transactions": 16, "poison": 0.0}

MUTANTS: tuple[Mutant, ...] = (
    Mutant("no fence", "the broker refuses an earlier owner", _ATOMIC, _no_fence),
    Mutant("no receipts", "a take-over settles what the receipts name", _ATOMIC, _no_receipts),
    Mutant("one receipt", "the broker keeps the last 64 receipts", _ATOMIC, _one_receipt),
    Mutant("receipt apart", "a batch and its receipt become visible together", _ATOMIC, _receipt_apart),
    Mutant("no digest", "a receipt names the id, not the position alone", _ATOMIC, _no_digest),
    Mutant("settled once", "a new session begins by settling the receipts", _ATOMIC, _settles_only_once),
    Mutant("settle first", "nothing is settled before it is acknowledged", {}, _settles_first),
    Mutant("settle refused", "what is refused is parked or waits", _REFUSING, _settles_refused),
    Mutant("order by time", "rows are sent in the order of positions", {}, _by_time),
    Mutant("cursor", "everything that waits is read again, from the bottom", {}, _cursor),
    Mutant("pages blindly", "a page counts where nothing has appeared below it", _PAGING, _pages_blindly),
    Mutant("no entity lock", "the writer locks the entity before it draws a position", {}, _no_entity_lock),
    Mutant("in hand forgotten", "a row in hand is not sent again", _ATOMIC, _in_hand_forgotten),
    Mutant("key does not wait", "a key waits behind its refused message", _REFUSING, _key_does_not_wait),
    Mutant("read-ahead kept", "what waits now is taken out of the read-ahead", _REFUSING, _read_ahead_kept),
    Mutant("many per key", "one of a key under way, where one may fail alone", _PLAIN | _REFUSING, _many_per_key),
    Mutant("no token", "renew and release name the token", _PLAIN, _no_token),
    Mutant("given to anybody", "a lease is given when the last one has ended", _PLAIN, _given_to_anybody),
    Mutant("trust from the answer", "trust counts from when an attempt began", _PLAIN, _trust_from_the_answer),
    Mutant("trust without end", "no publish is begun that could outlive the lease", _PLAIN, _trust_without_end),
    Mutant("at once", "after an early take-over the last owner's lease is waited for", _EVIDENCE, _at_once),
    Mutant("no doubt", "what is sent to a plain broker is marked before", _PLAIN, _no_doubt),
)
