"""Publishing on one lane: windows of messages, each with the server's word on every message in it.

A message is published where the server has confirmed it and not sent it back. One that comes back (nothing is bound),
or that a queue refuses, fails alone: its row stays, with the cause.

RabbitMQ closes the channel where it does not take a message, and does not say which one it was. Everything that was
under way then is in doubt, and the places that it went to are suspect: from then on a message for one of them is sent
alone until one was taken, so that the next refusal tells whom it is about, and nothing else suffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aiormq.exceptions import DeliveryError, PublishError

from fencepost.brokers.rabbitmq.encode import Encoded, Encoder, Route
from fencepost.brokers.rabbitmq.faults import from_library, is_refusal, of_a_message, size_limit
from fencepost.brokers.rabbitmq.link import Link
from fencepost.brokers.rabbitmq.suspects import Suspects
from fencepost.brokers.rabbitmq.topology import Topology
from fencepost.brokers.rabbitmq.wire import Window
from fencepost.clock import Clock
from fencepost.errors import ConnectionLost, FencepostError, ParkError, SchemaMissing
from fencepost.handoffs import Progress, Validity, windows
from fencepost.message import Stored
from fencepost.ports import Failure, Lane, Outcome
from fencepost.receipt import Receipts
from fencepost.words import counted

WINDOW_MESSAGES = 2_000
WINDOW_BYTES = 8_000_000
"""How much is under way at once, at most."""
_ALONE_S = 0.5
"""How long a publish goes on sending messages one by one; the rest is left to the next."""

Pair = tuple[Stored, Encoded]


class _Progress(Progress):
    """``topics_are_places``: what is wrong with a topic's place is wrong for all of the topic."""

    def __init__(self, *, topics_are_places: bool) -> None:
        super().__init__()
        self._topics_are_places = topics_are_places

    def refuse(self, message: Stored, error: FencepostError) -> None:
        whole_topic = self._topics_are_places and not isinstance(error, ParkError)
        self.failed.append(Failure(message, error, whole_topic=whole_topic))


class RabbitHandoff:
    """See fencepost.ports.Handoff."""

    def __init__(
        self, link: Link, encoder: Encoder, topology: Topology, suspects: Suspects, lane: Lane, clock: Clock
    ) -> None:
        self._link, self._encoder, self._topology = link, encoder, topology
        self._suspects, self._lane, self._clock = suspects, lane, clock
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
        progress = _Progress(topics_are_places=self._encoder.topics_are_places)
        what = f"publishing {counted(len(batch), 'message')} of lane {self._lane.name}"
        with self._validity.publishing(progress):
            async with self._link.asking(what):
                await self._publish(batch, progress)
        return progress.outcome(batch)

    async def close(self) -> None:
        """See Handoff."""
        self._validity.end()
        await self._link.close()

    async def _publish(self, batch: Sequence[Stored], progress: _Progress) -> None:
        wrong = await self._topology.ensure_topics(self._link, dict.fromkeys(m.topic for m in batch))
        started = self._clock.monotonic()
        pairs = self._encoded(batch, wrong, progress)
        for window in windows(pairs, self._name_of, lambda pair: len(pair[1].frames), WINDOW_MESSAGES, WINDOW_BYTES):
            alone = len(window) == 1 and self._suspects.has(window[0][1].route)
            if alone and self._clock.monotonic() - started > _ALONE_S and (progress.published or progress.failed):
                continue
            await self._send(window, progress, alone=alone)

    def _encoded(
        self, batch: Sequence[Stored], wrong: dict[str, FencepostError], progress: _Progress
    ) -> Iterator[Pair]:
        for message in batch:
            try:
                encoded = self._encoder.one(message)
            except ParkError as error:
                progress.refuse(message, error)
                continue
            refusal = wrong.get(message.topic) or self._suspects.refusal(encoded.route)
            if refusal is not None:
                progress.refuse(message, refusal)
            else:
                yield message, encoded

    def _name_of(self, pair: Pair) -> str | None:
        """The library tells by the id which message of a window came back. What is for a suspect goes alone."""
        message, encoded = pair
        return None if self._suspects.has(encoded.route) else message.id

    async def _send(self, window: Sequence[Pair], progress: _Progress, *, alone: bool) -> None:
        """Send messages and take the server's word on each. Raises where it is not about single messages."""
        sent = Window(await self._link.channel(), [message.id for message, _ in window])
        try:
            await self._link.confirmed(sent, b"".join([encoded.frames for _, encoded in window]))
        finally:
            for (message, encoded), answer in zip(window, sent.answers, strict=False):
                if answer.done():
                    self._take(message, encoded.route, answer.exception(), progress)
        if not sent.done.done():
            self._refused(window, self._link.closed_because, progress, alone=alone)

    def _take(self, message: Stored, route: Route, error: BaseException | None, progress: _Progress) -> None:
        if error is None:
            progress.published.add(message.position)
            self._suspects.clear(route)
        elif isinstance(error, PublishError):
            self._topology.forget(message.topic)
            progress.refuse(message, _unroutable(message, route))
        elif isinstance(error, DeliveryError):
            where = f"message {message.id} to {_shown(route)}: RabbitMQ refused it (basic.nack)"
            progress.refuse(message, from_library(error, where))

    def _refused(
        self, window: Sequence[Pair], because: BaseException | None, progress: _Progress, *, alone: bool
    ) -> None:
        """The server has closed the channel because of one of these messages. Raises where nobody knows which one."""
        self._suspects.limit(size_limit(because))
        message, encoded = window[0]
        what = f"publishing message {message.id} to {_shown(encoded.route)}"
        if because is not None and len(window) == 1 and is_refusal(because):
            error = of_a_message(because, what)
            if not isinstance(error, ParkError):
                self._suspects.refused(encoded.route, error)
                self._topology.forget(message.topic)
            progress.refuse(message, error)
            return
        for message, encoded in window:
            if message.position not in progress.published:
                self._suspects.add(encoded.route)
                self._topology.forget(message.topic)
        said = from_library(because, "publishing") if because is not None else None
        raise ConnectionLost(
            f"RabbitMQ refused one of {counted(len(window), 'message')}" + (f": {said.what}" if said else ""),
            remedy="the messages to these places are now sent one by one to find out which",
        )


def _unroutable(message: Stored, route: Route) -> SchemaMissing:
    if not route.exchange:
        what, remedy = f"there is no queue {route.key!r}", "create it, or set create = true so that the relay does"
    else:
        what = f"nothing is bound to the exchange {route.exchange!r} for the routing key {route.key!r}"
        remedy = "bind a queue, or list it in queues; the message stays in the outbox until then"
    return SchemaMissing(f"message {message.id} of topic {message.topic!r} came back: {what}", remedy=remedy)


def _shown(route: Route) -> str:
    return f"exchange {route.exchange!r}, routing key {route.key!r}" if route.exchange else f"queue {route.key!r}"
