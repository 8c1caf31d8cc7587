"""Which of the rows that were read may be sent now: nothing twice, nothing of a key past one that waits.

Kept in memory, by the one owner of the lane; rows are looked at in the order of their positions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fencepost.clock import Clock
from fencepost.message import Entity, Position, Stored, entity_of
from fencepost.ports import Outcome


def waves(batch: Sequence[Stored]) -> list[list[Stored]]:
    """A batch in pieces with one message of a key at most, the first ones first: what may be under way at once where a
    message may fail alone.
    """
    found: list[list[Stored]] = []
    before: dict[Entity, int] = {}
    for message in batch:
        entity = entity_of(message)
        number = before.get(entity, 0)
        before[entity] = number + 1
        if number == len(found):
            found.append([])
        found[number].append(message)
    return found


class Order:
    """The rows in hand (chosen, not yet let go), the keys that wait for another try, and the keys passed over in this
    round.

    A key of which one row was passed over is passed over until the next round, which begins at the bottom: whatever
    held the row back may end at any moment, and a later row of the key, higher up, must not overtake it then.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_hand: set[Position] = set()
        self._let_go: set[Position] = set()
        self._waiting: dict[Entity, float] = {}
        self._passed_over: set[Entity] = set()
        self._failed: set[Entity] = set()
        # Topics of which nothing may be sent: until when, those of this round, and those that failed just now.
        self._held: dict[str, float] = {}
        self._topics_passed_over: set[str] = set()
        self._failed_topics: set[str] = set()
        # Keys and topics of which nothing more of the batch is sent that is being published.
        self._stopped: set[Entity] = set()
        self._stopped_topics: set[str] = set()

    def begin_read(self, *, bottom: bool) -> None:
        """A read of the outbox begins, at the bottom or further up.

        What is let go while it runs may still be among its rows and is not chosen from them. What failed before it is
        left to ``choose``: only rows that were chosen before a failure are taken out by ``confirm``.
        """
        self._let_go.clear()
        self._failed.clear()
        self._failed_topics.clear()
        if bottom:
            self._passed_over.clear()
            now = self._clock.monotonic()
            self._held = {topic: until for topic, until in self._held.items() if until > now}
            self._topics_passed_over = set(self._held)

    def free(self, rows: Sequence[Stored]) -> Sequence[Stored]:
        """Those of ``rows``, from the read that began last, that are in no hand and were in none while it ran."""
        if self._in_hand or self._let_go:
            return [m for m in rows if m.position not in self._in_hand and m.position not in self._let_go]
        return rows

    def choose(self, rows: Sequence[Stored]) -> list[Stored]:
        """Those of ``rows``, from the read that began last, that may be sent now; they are in hand from here on."""
        free = self.free(rows)
        by_key = self._waiting or self._passed_over or self._topics_passed_over
        chosen = self._choose_by_key(free) if by_key else list(free)
        self._in_hand.update([m.position for m in chosen])
        return chosen

    def _choose_by_key(self, rows: Sequence[Stored]) -> list[Stored]:
        now = self._clock.monotonic()
        self._waiting = {entity: until for entity, until in self._waiting.items() if until > now}
        chosen = []
        for message in rows:
            if message.topic in self._topics_passed_over:
                continue
            entity = entity_of(message)
            if entity in self._passed_over or entity in self._waiting:
                self._passed_over.add(entity)
                continue
            chosen.append(message)
        return chosen

    def confirm(self, chosen: Sequence[Stored]) -> Sequence[Stored]:
        """What of a read-ahead may still be sent, now that the batches before it are done; the rest is let go.

        To be called before the next read begins.
        """
        failed, self._failed = self._failed, set()
        topics, self._failed_topics = self._failed_topics, set()
        self._stopped, self._stopped_topics = set(), set()
        return self._without(chosen, failed, topics)

    def still(self, later: Sequence[Stored]) -> Sequence[Stored]:
        """What of a batch's later part may be sent after the failures of its earlier ones; the rest is let go."""
        return self._without(later, self._stopped, self._stopped_topics)

    def _without(self, messages: Sequence[Stored], keys: set[Entity], topics: set[str]) -> Sequence[Stored]:
        if not keys and not topics:
            return messages
        again = [m for m in messages if m.topic not in topics and entity_of(m) not in keys]
        kept = {m.position for m in again}
        self.let_go([m for m in messages if m.position not in kept])
        return again

    def let_go(self, messages: Collection[Stored]) -> None:
        """These are no longer in hand: settled, parked, or left for a later round."""
        positions = [m.position for m in messages]
        self._in_hand.difference_update(positions)
        self._let_go.update(positions)

    def wait(self, message: Stored, delay_s: float) -> None:
        """Nothing of this message's key is chosen for ``delay_s``, and not before the next round."""
        self._waiting[entity_of(message)] = self._clock.monotonic() + delay_s
        self._passed_over.add(entity_of(message))
        self._failed.add(entity_of(message))
        self._stopped.add(entity_of(message))

    def put_off(self, messages: Sequence[Stored]) -> None:
        """These are let go without having been sent; nothing of their keys is chosen before the next round."""
        entities = {entity_of(m) for m in messages}
        self._passed_over |= entities
        self._failed |= entities
        self.let_go(messages)

    def hold(self, topic: str, delay_s: float) -> None:
        """Nothing of this topic is chosen for ``delay_s``, and not before the next round."""
        self._held[topic] = self._clock.monotonic() + delay_s
        self._topics_passed_over.add(topic)
        self._failed_topics.add(topic)
        self._stopped_topics.add(topic)

    def next_try_s(self) -> float | None:
        """Seconds until the first waiting key or topic may be tried again (at least 0), None where none waits."""
        untils = [*self._waiting.values(), *self._held.values()]
        return max(0.0, min(untils) - self._clock.monotonic()) if untils else None

    def rest(self, batch: Sequence[Stored], outcome: Outcome) -> list[Stored]:
        """What of the batch may be tried again at once: neither published nor failed, nor of a key that has just
        failed.
        """
        if len(outcome.published) == len(batch):
            return []
        done = {m.position for m in outcome.published} | {f.message.position for f in outcome.failed}
        left = [m for m in batch if m.position not in done and m.topic not in self._failed_topics]
        return [m for m in left if entity_of(m) not in self._failed]
