"""Frames of AMQP 0-9-1, and the one place that works below the client library's own way to publish.

The library needs some 300 us for each message that it publishes: three locks, several futures and tasks. Here a whole
window of messages is encoded, given to its writer in one piece, and its table of confirmations is told what to expect.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

from aiormq.abc import AbstractChannel, ChannelFrame

FRAME_BYTES = 8
"""What a frame has besides its payload."""

_METHOD, _HEADER, _BODY, _END = 1, 2, 3, b"\xce"
_BASIC, _PUBLISH = 60, 40
_MANDATORY = 1
_PERSISTENT = b"\x02"
_HAS_TYPE, _HAS_HEADERS, _HAS_MODE, _HAS_ID = 0x8000, 0x2000, 0x1000, 0x0080


def short(data: bytes) -> bytes:
    """A text of at most 255 bytes."""
    return bytes((len(data),)) + data


def publish(channel: int, exchange: bytes, routing_key: bytes) -> bytes:
    """The frame that begins a message. Messages that no queue takes come back."""
    payload = struct.pack(">HHH", _BASIC, _PUBLISH, 0) + short(exchange) + short(routing_key) + bytes((_MANDATORY,))
    return _frame(_METHOD, channel, payload)


def header(channel: int, size: int, content_type: bytes, message_id: bytes, headers: bytes) -> bytes:
    """The frame of a message's properties, persistent. ``headers`` are fields; an empty content type is left out."""
    flags = _HAS_HEADERS | _HAS_MODE | _HAS_ID | (_HAS_TYPE if content_type else 0)
    head = struct.pack(">HHQH", _BASIC, 0, size, flags)
    table = struct.pack(">I", len(headers)) + headers
    kind = short(content_type) if content_type else b""
    return _frame(_HEADER, channel, head + kind + table + _PERSISTENT + short(message_id))


def field(name: bytes, value: bytes) -> bytes:
    """A header whose value is a text."""
    return b"%b%bS%b%b" % (bytes((len(name),)), name, struct.pack(">I", len(value)), value)


def body(channel: int, data: bytes, frame_bytes_max: int) -> bytes:
    """The frames of a body; none where it is empty."""
    most = frame_bytes_max - FRAME_BYTES
    if len(data) <= most:
        return _frame(_BODY, channel, data) if data else b""
    return b"".join([_frame(_BODY, channel, data[i : i + most]) for i in range(0, len(data), most)])


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + _END


class Window:
    """Messages that were sent together, and what the server says of each.

    ``done`` is set when it has said something of all.
    """

    def __init__(self, channel: AbstractChannel, ids: Sequence[str]) -> None:
        self._channel, self._ids = channel, ids
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.answers: list[asyncio.Future[Any]] = []
        self._missing = len(ids)

    async def send(self, frames: bytes) -> None:
        """Write the messages, in this order. No two of them have the same id."""
        channel: Any = self._channel
        async with channel.lock:
            for message_id in self._ids:
                answer = self._loop.create_future()
                answer.add_done_callback(self._answered)
                self.answers.append(answer)
                channel.delivery_tag += 1
                channel.confirmations[channel.delivery_tag] = answer
                channel.message_id_delivery_tag[message_id] = channel.delivery_tag
            await channel.write_queue.put(ChannelFrame(payload=frames, should_close=False, drain_future=None))

    def end(self) -> None:
        """Forget the ids: nothing more is expected."""
        tags: dict[str, int] = self._channel.message_id_delivery_tag  # type: ignore[attr-defined]
        for message_id in self._ids:
            tags.pop(message_id, None)

    def _answered(self, answer: asyncio.Future[Any]) -> None:
        if not answer.cancelled():
            answer.exception()  # it counts as seen, though nobody may look any more
        self._missing -= 1
        if not self._missing and not self.done.done():
            self.done.set_result(None)
