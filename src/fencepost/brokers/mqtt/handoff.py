"""Publishing on one lane: as many messages under way as the server allows, and its word on each of them.

A message is published where the server has acknowledged it with success. One that it refuses fails alone, or with its
topic; its row stays, with the cause. Servers also end the connection because of a message (``suspects``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fencepost.brokers.mqtt.encode import Encoded, Encoder
from fencepost.brokers.mqtt.faults import (
    NO_SUBSCRIBERS,
    NOT_AUTHORIZED,
    QUOTA_EXCEEDED,
    SUCCESS,
    from_code,
    is_of_a_message,
    no_subscribers,
    of_a_message,
)
from fencepost.brokers.mqtt.link import Answer, Link
from fencepost.brokers.mqtt.settings import Settings
from fencepost.brokers.mqtt.suspects import Suspects
from fencepost.clock import Clock
from fencepost.errors import FencepostError, ParkError
from fencepost.handoffs import Progress, Validity
from fencepost.message import Entity, Stored, entity_of
from fencepost.ports import Failure, Lane, Outcome
from fencepost.receipt import Receipts
from fencepost.words import counted

UNDER_WAY_MAX = 1000
UNDER_WAY_BYTES = 8_000_000
"""How much is under way at once, at most, whatever the server allows."""
_BEGIN_SHARE = 0.6
"""Of the time of a batch: in the rest what has begun is answered. What has not is left to the next publish."""
_OF_THE_TOPIC = frozenset({NO_SUBSCRIBERS, NOT_AUTHORIZED, QUOTA_EXCEEDED})

Pair = tuple[Stored, Encoded]


class _Progress(Progress):
    """``under_way`` are the messages without an answer, by the library's number."""

    def __init__(self) -> None:
        super().__init__()
        self.held_topics: set[str] = set()
        self.under_way: dict[int, Pair] = {}
        self.bytes_under_way = 0

    @property
    def has_part(self) -> bool:
        """True where the fate of a message is known."""
        return bool(self.published or self.failed)

    def sent(self, mid: int, pair: Pair) -> None:
        self.under_way[mid] = pair
        self.bytes_under_way += pair[1].size

    def answered(self, mid: int) -> Pair:
        pair = self.under_way.pop(mid)
        self.bytes_under_way -= pair[1].size
        return pair

    def refuse(self, message: Stored, error: FencepostError, *, whole_topic: bool = False) -> None:
        self.failed.append(Failure(message, error, whole_topic=whole_topic))
        if whole_topic:
            self.held_topics.add(message.topic)


class MqttHandoff:
    """See fencepost.ports.Handoff."""

    def __init__(
        self,
        link: Link,
        encoder: Encoder,
        settings: Settings,
        suspects: Suspects,
        lane: Lane,
        clock: Clock,
        publish_s: float,
    ) -> None:
        self._link, self._encoder, self._settings = link, encoder, settings
        self._suspects, self._lane, self._clock = suspects, lane, clock
        self._publish_s = publish_s
        self._under_way_max = min(link.terms.in_flight_max, UNDER_WAY_MAX)
        self._receipts = Receipts()
        self._validity = Validity(lane)

    @property
    def receipts(self) -> Receipts:
        """See Handoff: none."""
        return self._receipts

    @property
    def link(self) -> Link:
        """The connection, which is this lane's alone."""
        return self._link

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """See Handoff. Where something breaks after a part, that part is returned and the next call raises."""
        progress, what = _Progress(), f"publishing {counted(len(batch), 'message')} of lane {self._lane.name}"
        with self._validity.publishing(progress):
            try:
                async with self._link.asking(what):
                    await self._publish(batch, progress)
            except FencepostError:
                self._blame(progress)
                raise
        return progress.outcome(batch)

    async def close(self) -> None:
        """See Handoff."""
        self._validity.end()
        self._link.close()

    async def _publish(self, batch: Sequence[Stored], progress: _Progress) -> None:
        until = self._clock.monotonic() + _BEGIN_SHARE * self._publish_s
        alone: dict[Entity, list[Pair]] = {}
        for pair in self._encoded(batch, progress):
            entity = entity_of(pair[0])
            if entity in alone or self._suspects.has(pair[0].id):
                alone.setdefault(entity, []).append(pair)
            else:
                await self._send(pair, progress, self._under_way_max, until)
        ranks = self._suspects.ranks() if alone else {}
        for pairs in sorted(alone.values(), key=lambda pairs: ranks.get(pairs[0][0].id, 0)):
            for pair in pairs:
                await self._send(pair, progress, 1, until)
        await self._room(progress, 1)

    async def _send(self, pair: Pair, progress: _Progress, most: int, until: float) -> None:
        """Begin to send a message, when fewer than ``most`` are under way; not where it is too late for that."""
        message, encoded = pair
        await self._room(progress, most, encoded.size)
        is_late = progress.has_part and self._clock.monotonic() > until
        if not is_late and message.topic not in progress.held_topics:
            progress.sent(self._link.send(encoded), pair)

    def _encoded(self, batch: Sequence[Stored], progress: _Progress) -> Iterator[Pair]:
        for message in batch:
            try:
                encoded = self._encoder.one(message)
            except ParkError as error:
                progress.refuse(message, error)
            else:
                yield message, encoded

    async def _room(self, progress: _Progress, most: int, size: int = 0) -> None:
        """Wait until fewer than ``most`` messages are under way, and ``size`` bytes more would not be too many."""
        while progress.under_way and (
            len(progress.under_way) >= most or progress.bytes_under_way + size > UNDER_WAY_BYTES
        ):
            for answer in await self._link.answers():
                self._take(answer, progress)

    def _take(self, answer: Answer, progress: _Progress) -> None:
        message, encoded = progress.answered(answer.mid)
        self._suspects.clear(message.id)
        taken = answer.code == SUCCESS or (answer.code == NO_SUBSCRIBERS and self._settings.allow_no_subscribers)
        if taken:
            progress.published.add(message.position)
            return
        what = _what(message, encoded)
        if answer.code == NO_SUBSCRIBERS:
            error: FencepostError = no_subscribers(what)
        else:
            error = from_code(answer.code, answer.name, what, answer.text)
        whole_topic = self._settings.topic_is_place and answer.code in _OF_THE_TOPIC
        progress.refuse(message, error, whole_topic=whole_topic)

    def _blame(self, progress: _Progress) -> None:
        """The connection has ended, perhaps because of a message that was under way."""
        link, pairs = self._link, list(progress.under_way.values())
        if not link.was_ended:
            return
        self._suspects.add([message.id for message, _ in pairs])
        if len(pairs) == 1 and is_of_a_message(link.lost_code):
            message, encoded = pairs[0]
            error = of_a_message(link.lost_code, link.lost_name, _what(message, encoded), link.lost_text)
            whole_topic = self._settings.topic_is_place and link.lost_code in _OF_THE_TOPIC
            progress.refuse(message, error, whole_topic=whole_topic)


def _what(message: Stored, encoded: Encoded) -> str:
    return f"publishing message {message.id} to the MQTT topic {encoded.topic!r}"
