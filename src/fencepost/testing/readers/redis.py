"""A reader of Redis Streams: redis-py's XRANGE. A field that comes twice is seen twice: no dict hides it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis.asyncio

from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen
from fencepost.testing.readers.cloudevents import seen

_PAYLOAD = "payload"
_UNPUBLISHABLE_BYTES = 20_000_000


class RedisReader:
    """``fencepost.testing.harness.Reader`` says what each call promises."""

    def __init__(self, options: BrokerOptions) -> None:
        self._prefix = str(options.settings.get("prefix", ""))
        client: Any = redis.asyncio.Redis.from_url(options.url)
        client.set_response_callback("XRANGE", lambda answer, **_: answer)
        self._client = client
        self._read: set[str] = set()

    async def read(self, topic: str) -> Sequence[Seen]:
        self._read.add(self._prefix + topic)
        return [_seen(topic, fields) for _, fields in await self._client.xrange(self._prefix + topic)]

    def unpublishable(self, message: Stored) -> Stored:
        return message._replace(payload=bytes(_UNPUBLISHABLE_BYTES))

    async def close(self) -> None:
        """Remove the streams that were read: this server keeps everything in memory."""
        if self._read:
            await self._client.delete(*self._read)
        await self._client.aclose()


def _seen(topic: str, fields: Sequence[bytes]) -> Seen:
    pairs = [(name.decode(), value) for name, value in zip(fields[::2], fields[1::2], strict=True)]
    payloads = [value for name, value in pairs if name == _PAYLOAD]
    if len(payloads) > 1:
        raise ValueError(f"the payload came twice on topic {topic!r}")
    headers = [(name, value.decode()) for name, value in pairs if name != _PAYLOAD]
    return seen(topic, payloads[0] if payloads else None, headers, prefix="ce_")


def reader(options: BrokerOptions) -> RedisReader:
    """The reader of one server."""
    return RedisReader(options)
