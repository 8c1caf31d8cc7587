"""The handoff for servers and streams without atomic batches: messages one by one, each with its id.

The server drops a message whose id it has stored inside its duplicate window. There is no fence and no receipt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fencepost.brokers.nats.encode import Encoded, Encoder
from fencepost.brokers.nats.errors import Refusal
from fencepost.brokers.nats.stream import Stream
from fencepost.brokers.nats.wire import frame
from fencepost.errors import FixError, ParkError
from fencepost.handoffs import Progress, Validity, windows
from fencepost.message import Entity, Stored, entity_of
from fencepost.ports import Failure, Lane, Outcome
from fencepost.receipt import Receipts
from fencepost.words import counted

WINDOW_MESSAGES = 1000
WINDOW_BYTES = 8_000_000
"""How much is under way at once, at most."""

Pair = tuple[Stored, Encoded]


class _Progress(Progress):
    """Nothing more is sent of an entity in ``halted``: the server refused one."""

    def __init__(self) -> None:
        super().__init__()
        self.halted: set[Entity] = set()

    def refused(self, message: Stored, error: ParkError) -> None:
        self.failed.append(Failure(message, error))
        self.halted.add(entity_of(message))


class DeduplicatingHandoff:
    """See fencepost.ports.Handoff."""

    def __init__(self, stream: Stream, encoder: Encoder, lane: Lane) -> None:
        self._stream, self._connection, self._encoder = stream, stream.connection, encoder
        self._lane = lane
        self._receipts = Receipts()
        self._validity = Validity(lane)

    @property
    def receipts(self) -> Receipts:
        """See Handoff: none."""
        return self._receipts

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """See Handoff. Where something breaks after a part, that part is returned and the next call raises."""
        progress, what = _Progress(), f"publishing {counted(len(batch), 'message')} of lane {self._lane.name}"
        with self._validity.publishing(progress):
            async with self._connection.asking(what):
                await self._publish(batch, progress)
        return progress.outcome(batch)

    async def close(self) -> None:
        """See Handoff."""
        self._validity.end()

    async def _publish(self, batch: Sequence[Stored], progress: _Progress) -> None:
        pairs = list(self._encoded(batch, progress))
        await self._stream.cover({encoded.subject.decode() for _, encoded in pairs})
        for window in windows(pairs, lambda pair: entity_of(pair[0]), _bytes_of, WINDOW_MESSAGES, WINDOW_BYTES):
            await self._send([pair for pair in window if entity_of(pair[0]) not in progress.halted], progress)

    def _encoded(self, batch: Sequence[Stored], progress: _Progress) -> Iterable[Pair]:
        """The messages that can be sent: of an entity those before its first bad one."""
        bytes_max, bad = self._stream.message_bytes_max, set[Entity]()
        for message in batch:
            if entity_of(message) in bad:
                continue
            try:
                yield message, self._encoder.one(message, bytes_max)
            except ParkError as error:
                progress.failed.append(Failure(message, error))
                bad.add(entity_of(message))

    async def _send(self, window: Sequence[Pair], progress: _Progress) -> None:
        """Send messages and take all their answers. Raises the first refusal that is not about one message."""
        trouble: Refusal | None = None
        async with self._connection.exchange() as exchange:
            await self._connection.send(
                [_frame(message, encoded, exchange.reply(i)) for i, (message, encoded) in enumerate(window)]
            )
            for _ in window:
                number, answer = await exchange.next()
                message = window[number][0]
                refusal = Refusal.of(answer)
                if refusal is None:
                    self._verify(message, answer.get("stream"))
                    progress.published.add(message.position)
                elif isinstance(error := refusal.as_error(f"message {message.id}"), ParkError):
                    progress.refused(message, error)
                else:
                    trouble = trouble or refusal
        if trouble is not None:
            raise trouble

    def _verify(self, message: Stored, stream: object) -> None:
        if stream != self._stream.name:
            raise FixError(
                f"message {message.id} on topic {message.topic!r} went into the stream {stream}, not "
                f"{self._stream.name}",
                remedy="let only one stream take the subject",
            )


def _frame(message: Stored, encoded: Encoded, reply: str) -> bytes:
    head = b"%bNats-Msg-Id: %b\r\n\r\n" % (encoded.head, message.id.encode())
    return frame(encoded.subject, reply.encode(), head, encoded.body)


def _bytes_of(pair: Pair) -> int:
    _, encoded = pair
    return len(encoded.head) + len(encoded.body)
