"""The mutex under which a stream is changed.

A change replaces the whole configuration, and a server that gets two at once may keep one subscription too many: from
then on it stores every message of that subject twice. So only the holder of the mutex changes a stream.

The mutex is a consumer of the stream that receives nothing. Its name is the same for everybody and where it delivers
is the holder's own, so the server refuses a second one. It needs no clock of ours: the server removes it when the
holder's connection ends, and what a holder sends on that connection cannot arrive after that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fencepost.brokers.nats.connection import Connection
from fencepost.brokers.nats.errors import CONSUMER_EXISTS, CONSUMER_NOT_FOUND, Refusal
from fencepost.brokers.nats.subjects import RECEIPTS
from fencepost.clock import Clock
from fencepost.errors import Contention

CONSUMER = "fencepost_update"
"""The consumer's name."""
GONE_NS = 2_000_000_000
"""How long after the end of the holder's connection the server removes the consumer, in nanoseconds."""
_PAUSE_S = 0.02
_WAIT_OF_TIMEOUT = 0.5
"""The part of the deadline that is waited for other holders; the rest is for the change."""


@asynccontextmanager
async def alone(connection: Connection, stream: str, clock: Clock) -> AsyncIterator[None]:
    """While the block lasts nobody else is in such a block for this stream. Raises Refusal, Contention."""
    async with connection.listening() as subject:
        await _acquire(connection, stream, subject, clock)
        try:
            yield
        except BaseException:  # also when cancelled; a request that is under way comes before this one
            await connection.tell(_operation("DELETE", stream))
            raise
        await _release(connection, stream)


async def _acquire(connection: Connection, stream: str, subject: str, clock: Clock) -> None:
    until = clock.monotonic() + _WAIT_OF_TIMEOUT * connection.timeout_s
    while True:
        try:
            await connection.api(_operation("CREATE", stream), _consumer(stream, subject))
            return
        except Refusal as refusal:
            if refusal.err_code not in CONSUMER_EXISTS:
                raise
        if clock.monotonic() > until:
            raise Contention(
                f"the stream {stream} is being changed by somebody else",
                remedy=f"nothing if it passes; else look who holds the consumer {CONSUMER} of the stream",
            )
        await clock.sleep(_PAUSE_S * (1 + clock.random()))


async def _release(connection: Connection, stream: str) -> None:
    try:
        await connection.api(_operation("DELETE", stream))
    except Refusal as refusal:
        if refusal.err_code not in CONSUMER_NOT_FOUND:
            raise


def _operation(how: str, stream: str) -> str:
    return f"CONSUMER.{how}.{stream}.{CONSUMER}"


def _consumer(stream: str, subject: str) -> dict[str, object]:
    """Nobody publishes on its filter, and it may be added to a stream of any kind."""
    config = {
        "name": CONSUMER,
        "deliver_subject": subject,
        "filter_subject": RECEIPTS,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "max_ack_pending": 1,
        "inactive_threshold": GONE_NS,
        "num_replicas": 1,
        "mem_storage": True,
    }
    return {"stream_name": stream, "action": "create", "config": config}
