"""What really happened, as nobody inside the simulation can know it: the checkers judge by this alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.events import (
    CircuitOpened,
    DatabaseFellBack,
    Event,
    LeaseEnded,
    MessageFailed,
    MessageParked,
    NoAnswer,
    NotSettled,
    OwnerFenced,
    ReceiptsSettled,
    RelayFailed,
    RowsVanished,
    Settled,
    StandingBy,
)
from fencepost.message import Message, Position, Stored
from fencepost.ports import Term

_MARKS: dict[type[Event], str] = {
    OwnerFenced: "fence fired",
    DatabaseFellBack: "fall-back noticed",
    MessageFailed: "message refused, tried again",
    MessageParked: "message parked",
    CircuitOpened: "circuit opened",
    NoAnswer: "silence told",
    NotSettled: "left unsettled at the end",
    RowsVanished: "vanished rows told",
    StandingBy: "stood by",
}


@dataclass(frozen=True, slots=True)
class Committed:
    """A message of a transaction that committed. ``number`` counts commits: it is the order that a key must keep."""

    number: int
    message: Message


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as a reader of the broker sees it."""

    at_s: float
    lane: str
    term: Term
    message: Stored
    """``in_doubt`` is the mark that it may be a repeat."""


@dataclass(slots=True)
class Record:
    """``lines`` is the history for people; the same seed gives the same lines."""

    now_s: Callable[[], float]
    lines: list[str] = field(default_factory=list)
    marks: Counter[str] = field(default_factory=Counter)
    committed: list[Committed] = field(default_factory=list)
    forgotten: list[Committed] = field(default_factory=list)
    """Commits that the database has lost since, by falling back."""
    deliveries: list[Delivery] = field(default_factory=list)
    seen_ids: set[str] = field(default_factory=set)
    parked_ids: set[str] = field(default_factory=set)
    """What was ever parked: a database that falls back may forget it."""
    early_until_s: dict[tuple[str, int], float] = field(default_factory=dict)
    """Terms that were taken early, and until when the owner before may still trust its own."""
    highest: int = 0
    """The highest position that was ever published."""
    settled_early: list[str] = field(default_factory=list)
    """What was settled before any reader could see it."""
    owners: dict[tuple[str, int], str] = field(default_factory=dict)
    """Who was given a token; more than one owner of the same is a fault."""
    shared_tokens: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    """Publishes that were begun while somebody else had the lease."""
    false_alarms: list[str] = field(default_factory=list)
    """What was told to be lost and had been published."""
    stuck: list[str] = field(default_factory=list)
    """What did not come to rest."""
    defects: list[str] = field(default_factory=list)
    """Errors that nobody should ever see."""
    faults: Counter[str] = field(default_factory=Counter)
    over: bool = False
    """The simulation is being put away: nothing counts any more."""

    def say(self, line: str) -> None:
        """Add a line to the history."""
        if not self.over:
            self.lines.append(f"{self.now_s():9.4f} {line}")

    def mark(self, name: str, count: int = 1) -> None:
        """A rare branch was reached."""
        if count and not self.over:
            self.marks[name] += count

    def fault(self, kind: str, what: str) -> None:
        """Trouble was made."""
        self.faults[kind] += 1
        self.say(f"!! {kind}: {what}")

    def commit(self, messages: Sequence[Message], positions: Mapping[str, Position]) -> None:
        """A transaction has committed these; ``positions`` are those of all rows that wait now."""
        for message in messages:
            self.committed.append(Committed(len(self.committed) + len(self.forgotten), message))
            position = positions[message.id]
            self.mark("late commit overtaken", int(position) < self.highest)
            self.mark("delayed message", message.available_at is not None)
        if messages:
            self.say("committed " + ", ".join(f"{positions[m.id]}={m.id[-4:]} of {m.key}" for m in messages))

    def fall_back(self, kept: int) -> None:
        """The database forgot every commit but the first ``kept`` of those that it still had."""
        self.forgotten += self.committed[kept:]
        del self.committed[kept:]

    def given(self, term: Term, ttl_s: float) -> None:
        """The lease store has given a term."""
        if term.early:
            self.early_until_s[term.name, term.token] = self.now_s() + ttl_s
        owner = self.owners.setdefault((term.name, term.token), term.owner)
        if owner != term.owner:
            self.shared_tokens.append(f"token {term.token} of {term.name} belongs to {owner} and to {term.owner}")
        self.mark("lease taken early", term.early)

    def deliver(self, lane: str, term: Term, message: Stored) -> None:
        """Readers can see this from now on."""
        self.deliveries.append(Delivery(self.now_s(), lane, term, message))
        self.mark("in doubt, sent again", message.in_doubt and message.id in self.seen_ids)
        self.seen_ids.add(message.id)
        self.highest = max(self.highest, int(message.position))
        row = f"{_short(message.position, message.id)} of {message.key} on {message.topic}"
        self.say(f"published by {term.owner} ({term.token}): {row}")

    def settle(self, owner: str, rows: Sequence[tuple[Position, str]]) -> None:
        """These were settled."""
        self.settled_early += [f"{_short(p, id_)} by {owner}" for p, id_ in rows if id_ not in self.seen_ids]
        if rows:
            self.say(f"settled by {owner}: " + ", ".join(_short(p, id_) for p, id_ in rows))

    def observe(self, owner: str, event: Event) -> None:
        """What a relay told."""
        self.say(f"{owner}: {event}")
        match event:
            case ReceiptsSettled(rows=rows):
                self.mark("receipt used at take-over", rows)
            case LeaseEnded(reason=reason):
                self.mark(f"lease {reason}")
            case Settled(rows=rows, expected=expected):
                self.mark("settled by somebody else before", expected - rows)
            case MessageParked(message_id=message_id):
                self.parked_ids.add(message_id)
                self.mark(_MARKS[MessageParked])
            case RelayFailed(cause=cause):
                self.defects.append(f"{owner}: {cause}")
            case RowsVanished(message_ids=ids):
                self.false_alarms += [f"{id_} by {owner}" for id_ in ids if id_ in self.seen_ids]
                self.mark(_MARKS[RowsVanished])
            case _:
                self.mark(_MARKS.get(type(event), ""), type(event) in _MARKS)


def _short(position: Position, message_id: str) -> str:
    return f"{position}={message_id[-4:]}"
