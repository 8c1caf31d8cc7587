"""Frames of the NATS protocol, and the one place that reaches past the client library's public interface.

The library encodes headers with some 35 us per message and flushes in between; a batch that was encoded here is given
to its transport in one piece. Where a version of the library has no such transport, the public ``publish`` does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nats.aio.client import Client

HEADER_LINE = "NATS/1.0\r\n"


def frame(subject: bytes, reply: bytes, head: bytes, body: bytes) -> bytes:
    """An HPUB frame. ``head`` begins with the NATS/1.0 line and ends with an empty line; ``reply`` may be empty."""
    total = len(head) + len(body)
    if reply:
        return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject, reply, len(head), total, head, body)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, len(head), total, head, body)


async def send(client: Client, frames: Sequence[bytes]) -> None:
    """Write frames in this order. From the first byte on, others write either before or after all of them."""
    transport = transport_of(client)
    if transport is None:
        for one in frames:
            await _publish(client, one)
        return
    transport.writelines([b"".join(frames)])
    await transport.drain()


def transport_of(client: Client) -> Any | None:
    """What the library writes bytes to; None where this version of it has nothing of the kind."""
    transport = getattr(client, "_transport", None)
    usable = all(callable(getattr(transport, name, None)) for name in ("writelines", "drain"))
    return transport if usable else None


def _writer(client: Client) -> Any | None:
    return getattr(transport_of(client), "_io_writer", None)


def is_encrypted(client: Client) -> bool:
    """True where TLS is in use, or where this version of the library does not tell."""
    writer = _writer(client)
    return writer is None or writer.get_extra_info("ssl_object") is not None


def abort(client: Client) -> None:
    """End the connection at once and drop what was not sent yet: a stuck server must not get it later."""
    if (writer := _writer(client)) is not None:
        writer.transport.abort()


async def _publish(client: Client, one: bytes) -> None:
    line, _, rest = one.partition(b"\r\n")
    _, subject, *reply, head_size, total_size = line.split(b" ")
    head, body = rest[: int(head_size)], rest[int(head_size) : int(total_size)]
    headers = dict(field.split(": ", 1) for field in head.decode().split("\r\n")[1:-2])
    await client.publish(subject.decode(), body, reply=b"".join(reply).decode(), headers=headers)
