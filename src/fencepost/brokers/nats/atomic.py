"""The fenced handoff: a batch and its receipt as one atomic batch, refused where another owner has taken over since."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from fencepost.brokers.nats.connection import Exchange
from fencepost.brokers.nats.encode import Encoded, Encoder
from fencepost.brokers.nats.errors import STILL_IN_PROCESS, Refusal
from fencepost.brokers.nats.receipts import EXPECTED, PAUSE_S, PREVIOUS, TRIES, Kept, ReceiptLog
from fencepost.brokers.nats.stream import Stream
from fencepost.brokers.nats.wire import HEADER_LINE, frame
from fencepost.clock import Clock
from fencepost.errors import ConfigurationError, ParkError, Unavailable
from fencepost.handoffs import Validity
from fencepost.message import Stored
from fencepost.ports import Lane, Outcome, Term
from fencepost.receipt import RECEIPTS_KEPT, Receipt, Receipts
from fencepost.words import counted

PIECE_BYTES = 8_000_000
"""How much of a batch is sent before the server says that it holds it: its queue for a stream takes 128 MB."""
RECEIPT_ROOM = 1024
"""Bytes of a receipt besides what it names, and of its headers, at most."""
RECEIPT_BYTES_PER_MESSAGE = 32
"""What naming a message takes, with any whole number as its position."""

Piece = tuple[list[bytes], int]
"""Frames, and the number of the last one, which asks for an answer."""


async def take_over(stream: Stream, encoder: Encoder, lane: Lane, term: Term, clock: Clock) -> AtomicHandoff:
    """Fence the earlier owners and read the lane's receipts. Raises Refusal, Fenced or Contention."""
    log = ReceiptLog(stream.connection, stream.name, lane, clock)
    claimed = await log.claim(term)
    return AtomicHandoff(stream, encoder, lane, term, clock, log, claimed, await log.named(claimed))


class AtomicHandoff:
    """See fencepost.ports.Handoff."""

    def __init__(
        self,
        stream: Stream,
        encoder: Encoder,
        lane: Lane,
        term: Term,
        clock: Clock,
        log: ReceiptLog,
        claimed: Kept,
        named: deque[Kept],
    ) -> None:
        self._stream, self._connection, self._encoder = stream, stream.connection, encoder
        self._lane, self._term, self._clock = lane, term, clock
        self._log = log
        self._named = named
        self._fence = self._last = claimed.sequence
        self._counter = claimed.receipt.counter
        self._receipts = Receipts(kept.receipt for kept in named)
        self._validity = Validity(lane)

    @property
    def receipts(self) -> Receipts:
        """See Handoff."""
        return self._receipts

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """See Handoff."""
        with self._validity.publishing():
            encoded, failed = self._encoder.batch(batch, self._stream.message_bytes_max)
            if failed or not batch:
                return Outcome((), failed)
            what = f"publishing {counted(len(batch), 'message')} of lane {self._lane.name}"
            async with self._connection.asking(what):
                await self._hand_off(batch, encoded)
        return Outcome(batch)

    async def close(self) -> None:
        """See Handoff. A batch that has been sent is the server's; the next take-over tells what became of it."""
        self._validity.end()

    async def _hand_off(self, batch: Sequence[Stored], encoded: Sequence[Encoded]) -> None:
        if len(self._named) >= 2 * RECEIPTS_KEPT:
            await self._log.trim(self._named)
        await self._stream.cover({one.subject.decode() for one in encoded})
        receipt = Receipt.of(
            batch, fence=self._fence, counter=self._counter + 1, token=self._term.token, owner=self._term.owner
        )
        self._last = await self._commit(encoded, self._body(receipt))
        self._counter = receipt.counter
        self._named.append(Kept(self._last, self._newest_named(), receipt))
        self._receipts.add(receipt)

    def _newest_named(self) -> int:
        return self._named[-1].sequence if self._named else 0

    def _body(self, receipt: Receipt) -> bytes:
        body = receipt.encode()
        if len(body) + RECEIPT_ROOM > self._stream.message_bytes_max:
            raise ConfigurationError(
                f"the receipt of {counted(len(receipt.positions), 'message')} has {len(body):,} bytes, "
                f"the stream takes {self._stream.message_bytes_max:,}",
                remedy="make the batch smaller, or raise max_payload",
            )
        return body

    async def _commit(self, encoded: Sequence[Encoded], receipt: bytes) -> int:
        """The sequence of the receipt. A refusal because of a message under way says nothing yet: it is asked again."""
        tries = 1
        while True:
            try:
                return await self._send(encoded, receipt)
            except Refusal as refusal:
                if refusal.err_code not in STILL_IN_PROCESS or tries == TRIES:
                    raise _not_about_one_message(refusal) from refusal
            tries += 1
            await self._clock.sleep(PAUSE_S)

    async def _send(self, encoded: Sequence[Encoded], receipt: bytes) -> int:
        batch_id = self._clock.new_id()
        answer: dict[str, Any] = {}
        async with self._connection.exchange() as exchange:
            for frames, number in self._pieces(batch_id, encoded, receipt, exchange):
                await self._connection.send(frames)
                answer = await exchange.accepted(number)
        self._verify(answer, batch_id, len(encoded) + 1)
        return int(answer["seq"])

    def _pieces(self, batch_id: str, encoded: Sequence[Encoded], receipt: bytes, exchange: Exchange) -> Iterator[Piece]:
        """The frames of a batch. The first message asks for an answer too: a server that takes no batch says so."""
        frames: list[bytes] = []
        size, start = 0, f"Nats-Batch-Id: {batch_id}\r\nNats-Batch-Sequence: ".encode()
        for number, (subject, head, body) in enumerate(encoded, 1):
            size += len(head) + len(body)
            reply = exchange.reply(number).encode() if number == 1 or size > PIECE_BYTES else b""
            frames.append(frame(subject, reply, b"%b%b%d\r\n\r\n" % (head, start, number), body))
            if size > PIECE_BYTES:
                yield frames, number
                frames, size = [], 0
        last = len(encoded) + 1
        head = f"{HEADER_LINE}{EXPECTED}: {self._last}\r\n{PREVIOUS}: {self._newest_named()}\r\n".encode()
        head += f"Nats-Expected-Stream: {self._stream.name}\r\nNats-Batch-Commit: 1\r\n".encode()
        head += b"%b%d\r\n\r\n" % (start, last)
        yield [*frames, frame(self._log.subject.encode(), exchange.reply(last).encode(), head, receipt)], last

    def _verify(self, answer: dict[str, Any], batch_id: str, count: int) -> None:
        expected = {"stream": self._stream.name, "batch": batch_id, "count": count}
        found = {name: answer.get(name) for name in expected}
        if found != expected:
            raise Unavailable(f"the server acknowledged {found}, not {expected}: nobody knows what it stored")


def _not_about_one_message(refusal: Refusal) -> Exception:
    """A size that is refused although it was checked: the stream's limits changed, and a take-over reads them again."""
    error = refusal.as_error("publishing a batch")
    return Unavailable(error.what, remedy=error.remedy) if isinstance(error, ParkError) else refusal
