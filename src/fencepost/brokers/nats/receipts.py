"""The receipts of one lane in the stream: the subject whose last sequence is the fence.

Every receipt is published on condition that the last one is the one that its owner knows, so whoever writes one more
has fenced all others. Each carries the sequence of the last one before it that names something, so that the newest can
be read backwards, one by one, however many other messages lie between.
"""

from __future__ import annotations

import base64
import re
from collections import deque
from typing import NamedTuple

from fencepost.brokers.nats.connection import Connection
from fencepost.brokers.nats.errors import DELETE_FAILED, NO_MESSAGE, STILL_IN_PROCESS, WRONG_LAST_SEQUENCE, Refusal
from fencepost.brokers.nats.subjects import receipt_subject
from fencepost.clock import Clock
from fencepost.errors import Contention, FixError, Unavailable
from fencepost.ports import Lane, Term
from fencepost.receipt import RECEIPTS_KEPT, Receipt

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
PREVIOUS = "fencepost-previous"
PAUSE_S = 0.02
TRIES = 10
_PREVIOUS = re.compile(rf"^{PREVIOUS}: (\d+)\r$".encode(), re.MULTILINE)


class Kept(NamedTuple):
    """A receipt, where it stands in the stream, and where the last one before it stands that names something, or 0."""

    sequence: int
    previous: int
    receipt: Receipt

    @property
    def newest_named(self) -> int:
        """The sequence of the newest receipt up to this one that names something, 0 where there is none."""
        return self.sequence if self.receipt.positions else self.previous


class ReceiptLog:
    """The receipts of one lane, as the stream has them. All calls may raise Refusal."""

    def __init__(self, connection: Connection, stream: str, lane: Lane, clock: Clock) -> None:
        self._connection = connection
        self._stream = stream
        self._lane = lane
        self._clock = clock
        self.subject = receipt_subject(lane.name)

    async def claim(self, term: Term) -> Kept:
        """Fence every earlier owner by an empty receipt after the last one. Raises Contention where others do too."""
        for _ in range(TRIES):
            last = await self._get({"last_by_subj": self.subject})
            try:
                claimed = await self._write_empty(term, last)
            except Refusal as refusal:
                if refusal.err_code not in {WRONG_LAST_SEQUENCE, *STILL_IN_PROCESS}:
                    raise
            else:
                if last and not last.receipt.positions:
                    await self._delete(last.sequence)
                return claimed
            await self._clock.sleep(PAUSE_S * (1 + self._clock.random()))
        raise Contention(f"lane {self._lane.name} is being taken over by several owners at once")

    async def named(self, claimed: Kept) -> deque[Kept]:
        """The newest receipts before this one that name something, RECEIPTS_KEPT at most, oldest first.

        Older ones are removed.
        """
        found: deque[Kept] = deque()
        previous = claimed.previous
        while previous and len(found) < RECEIPTS_KEPT:
            kept = await self._get({"seq": previous})
            if kept is None:  # fell out of the stream by its limits
                await self._make_sure_of(claimed)
                break
            found.appendleft(kept)
            previous = kept.previous
        if previous and found:
            await self._purge(found[0].sequence)
        return found

    async def trim(self, named: deque[Kept]) -> None:
        """Remove all before the last RECEIPTS_KEPT, here and in the stream."""
        await self._purge(named[-RECEIPTS_KEPT].sequence)
        while len(named) > RECEIPTS_KEPT:
            named.popleft()

    async def _write_empty(self, term: Term, last: Kept | None) -> Kept:
        receipt = Receipt(0, last.receipt.counter if last else 0, term.token, term.owner, (), ())
        after, previous = (last.sequence, last.newest_named) if last else (0, 0)
        headers = {EXPECTED: str(after), PREVIOUS: str(previous), "Nats-Expected-Stream": self._stream}
        answer = await self._connection.request(self.subject, receipt.encode(), headers)
        return Kept(int(answer["seq"]), previous, receipt)

    async def _make_sure_of(self, claimed: Kept) -> None:
        """A server that shows the receipt of the take-over shows all before it too; one that lags behind does not."""
        if await self._get({"seq": claimed.sequence}) is None:
            raise Unavailable(
                f"the server does not show receipt {claimed.sequence} of {self._lane.name}, which it took"
            )

    async def _get(self, which: dict[str, object]) -> Kept | None:
        try:
            answer = await self._connection.api(f"STREAM.MSG.GET.{self._stream}", which)
        except Refusal as refusal:
            if refusal.err_code == NO_MESSAGE:
                return None
            raise
        return self._decoded(answer["message"])

    def _decoded(self, message: dict[str, object]) -> Kept:
        sequence, head = int(str(message["seq"])), base64.b64decode(str(message.get("hdrs", "")))
        try:
            if message["subject"] != self.subject or (previous := _PREVIOUS.search(head)) is None:
                raise ValueError(f"subject {message['subject']}, headers {head[:300]!r}")
            return Kept(sequence, int(previous[1]), Receipt.decode(base64.b64decode(str(message.get("data", "")))))
        except ValueError as error:
            raise FixError(
                f"message {sequence} of stream {self._stream} is not a receipt of lane {self._lane.name}: {error}",
                remedy=f"find out who else publishes on {self.subject}, and delete the message",
            ) from error

    async def _purge(self, below: int) -> None:
        await self._connection.api(f"STREAM.PURGE.{self._stream}", {"filter": self.subject, "seq": below})

    async def _delete(self, sequence: int) -> None:
        """Delete one message; that it is gone already is as good."""
        try:
            await self._connection.api(f"STREAM.MSG.DELETE.{self._stream}", {"seq": sequence, "no_erase": True})
        except Refusal as refusal:
            if refusal.err_code not in {NO_MESSAGE, DELETE_FAILED}:
                raise
