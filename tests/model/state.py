"""What the model of the handoff knows of the world: the database, the broker, two relays, and what is under way.

Everything is a tuple, so that states can be compared. Messages are numbers from 1, in the order in which they were
added; their keys follow from their numbers.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal, NamedTuple


class Row(NamedTuple):
    """A message at its position."""

    position: int
    message: int


Batch = tuple[Row, ...]
Receipts = tuple[Batch, ...]

NOTHING: Batch = ()


class Database(NamedTuple):
    """``rows`` are committed and not settled, lowest position first. ``open`` are those of transactions that have not
    ended.
    """

    rows: Batch = NOTHING
    open: Batch = NOTHING
    committed: frozenset[int] = frozenset()
    next_position: int = 1


class Broker(NamedTuple):
    """``owner`` is the relay that took over last, None where its handoff is gone. ``published`` is what a reader sees.

    ``in_the_air`` is a request under the present fence for which nobody waits any more; it may still arrive.
    """

    owner: int | None = None
    published: tuple[int, ...] = ()
    receipts: Receipts = ()
    in_the_air: Batch = NOTHING


Phase = Literal["away", "fenced", "informed", "working"]
"""Of a relay: it has no handoff; it has fenced the others; it knows the receipts; it has settled what they name."""

Sent = Literal["", "asked", "half", "taken"]
"""Of a batch that is being published: how far the broker has come. ``half`` is without its receipt."""


class Relay(NamedTuple):
    """One owner of the lane. Up to three batches are in hand: ``ahead``, ``publishing``, ``settling``.

    ``receipts`` are those that it knows. ``reading`` is what a read that has not returned yet has seen, None where
    none runs, and ``above`` the position above which it reads (0: from the bottom). ``after`` is where the next page
    of the round begins, and ``seen`` the positions of this round. ``waits``, ``passed_over`` and ``failed`` are about
    the key of a refused message. ``set_aside`` stays empty as designed: rows of that key that are kept in hand until
    the rest of their batch is done.
    """

    phase: Phase = "away"
    receipts: Receipts = ()
    connected: bool = False
    reading: Batch | None = None
    above: int = 0
    after: int = 0
    seen: tuple[int, ...] = ()
    ahead: Batch = NOTHING
    publishing: Batch = NOTHING
    sent: Sent = ""
    settling: Batch = NOTHING
    set_aside: Batch = NOTHING
    waits: bool = False
    passed_over: bool = False
    failed: bool = False

    def let_go(self, batch: Batch, also_read: bool) -> Relay:
        """The batch is in no hand any more. ``also_read``: a read that runs must not bring it back."""
        reading = without(self.reading, batch) if self.reading and also_read else self.reading
        settling, set_aside = without(self.settling, batch), without(self.set_aside, batch)
        return self._replace(reading=reading, settling=settling, set_aside=set_aside)

    def without_session(self) -> Relay:
        """It has noticed that its session is over: nothing is in hand any more."""
        return Relay(phase="working", receipts=self.receipts)


AWAY = Relay()


class World(NamedTuple):
    """``added`` counts messages. ``copy`` is the state at which a copy of the database has stopped following."""

    database: Database = Database()
    broker: Broker = Broker()
    relays: tuple[Relay, Relay] = (AWAY, AWAY)
    added: int = 0
    copy: Database | None = None
    fell_back: bool = False

    def with_relay(
        self, number: int, relay: Relay, *, database: Database | None = None, broker: Broker | None = None
    ) -> World:
        """The world with one relay changed, and what it did to the database or the broker."""
        first, second = self.relays
        return World(
            database or self.database,
            broker or self.broker,
            (relay, second) if number == 0 else (first, relay),
            self.added,
            self.copy,
            self.fell_back,
        )


Party = Literal["database", "relay 0", "relay 1", "broker"]

RELAYS: tuple[Party, Party] = ("relay 0", "relay 1")


class Step(NamedTuple):
    """What one party does, for example ("relay 0", "publishes", (Row(1, 1),)). Steps named "!..." are faults."""

    party: Party
    does: str
    what: Batch | None = None


Move = tuple[Step, World]


def without(rows: Batch, gone: Batch) -> Batch:
    """The rows that are not among the others, by position and message."""
    return tuple([row for row in rows if row not in gone]) if gone else rows


def named(receipts: Receipts) -> Batch:
    """All that receipts name."""
    return tuple([row for receipt in receipts for row in receipt])


def same(world: World) -> Hashable:
    """What two worlds have in common that differ by the numbers of their relays alone."""
    database, broker, (first, second), added, copy, fell_back = world
    owner, published, receipts, in_the_air = broker
    relays = frozenset([(first, owner == 0), (second, owner == 1)])
    return (database, published, receipts, in_the_air, relays, added, copy, fell_back)
