"""The handoff for servers and streams without atomic batches: messages one by one, each with its id.

The server drops a message whose id it has stored inside its duplicate window. There is no fence and no receipt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fencepost.brokers.nats.encode import Encoded, Encoder
from fencepost.brokers.nats.errors import Refusal
from fencepost.brokers.nats.stream import Stream
from fencepost.brokers.nats.wire import frame
from fencepost.errors import ConnectionLost, FencepostError, FixError, ParkError
from fencepost.message import Position, Stored
from fencepost.ports import Failure, Lane, Outcome
from fencepost.receipt import Receipts
from fencepost.words import counted

WINDOW_MESSAGES = 1000
WINDOW_BYTES = 8_000_000
"""How much is under way at once, at most."""

Pair = tuple[Stored, Encoded]
Entity = tuple[str, str]


class _Progress:
    """What has become of a batch so far. Nothing more is sent of an entity in ``halted``: the server refused one."""

    def __init__(self) -> None:
        self.published: set[Position] = set()
        self.failed: list[Failure] = []
        self.halted: set[Entity] = set()

    def refused(self, message: Stored, error: ParkError) -> None:
        self.failed.append(Failure(message, error))
        self.halted.add(_entity(message))

    def outcome(self, batch: Sequence[Stored]) -> Outcome:
        return Outcome([m for m in batch if m.position in self.published], self.failed)


class DeduplicatingHandoff:
    """See fencepost.ports.Handoff."""

    def __init__(self, stream: Stream, encoder: Encoder, lane: Lane) -> None:
        self._stream, self._connection, self._encoder = stream, stream.connection, encoder
        self._lane = lane
        self._receipts = Receipts()
        self._is_void = False

    @property
    def receipts(self) -> Receipts:
        """See Handoff: none."""
        return self._receipts

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """See Handoff. Where something breaks after a part, that part is returned and the next call raises."""
        if self._is_void:
            raise ConnectionLost(f"the handoff of lane {self._lane.name} is over", remedy="take over again")
        progress = _Progress()
        self._is_void = True
        try:
            async with self._connection.asking(
                f"publishing {counted(len(batch), 'message')} of lane {self._lane.name}"
            ):
                await self._publish(batch, progress)
            self._is_void = False
        except FencepostError:
            if not progress.published:
                raise
        return progress.outcome(batch)

    async def close(self) -> None:
        """See Handoff."""
        self._is_void = True

    async def _publish(self, batch: Sequence[Stored], progress: _Progress) -> None:
        pairs = list(self._encoded(batch, progress))
        await self._stream.cover({encoded.subject.decode() for _, encoded in pairs})
        for window in _windows(pairs):
            await self._send([pair for pair in window if _entity(pair[0]) not in progress.halted], progress)

    def _encoded(self, batch: Sequence[Stored], progress: _Progress) -> Iterable[Pair]:
        """The messages that can be sent: of an entity those before its first bad one."""
        bytes_max, bad = self._stream.message_bytes_max, set[Entity]()
        for message in batch:
            if _entity(message) in bad:
                continue
            try:
                yield message, self._encoder.one(message, bytes_max)
            except ParkError as error:
                progress.failed.append(Failure(message, error))
                bad.add(_entity(message))

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


def _entity(message: Stored) -> Entity:
    return (message.topic, message.id if message.key is None else message.key)


def _windows(pairs: Iterable[Pair]) -> Iterable[list[Pair]]:
    """The pairs in order, in pieces in which no key comes twice: a message that fails alone must not be overtaken."""
    window: list[Pair] = []
    size, entities = 0, set[Entity]()
    for message, encoded in pairs:
        entity = _entity(message)
        if entity in entities or len(window) >= WINDOW_MESSAGES or size > WINDOW_BYTES:
            yield window
            window, size, entities = [], 0, set()
        window.append((message, encoded))
        size += len(encoded.head) + len(encoded.body)
        entities.add(entity)
    if window:
        yield window
