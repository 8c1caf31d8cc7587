"""The demonstration's topic in Redis: a stream, read by redis-py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.asyncio import ConnectionPool, Redis

from fencepost.demo.readers import OnEntry, beside, entry
from fencepost.errors import ConfigurationError, FencepostError
from fencepost.history import Entry
from fencepost.ports import BrokerOptions
from fencepost.resp.address import address_of
from fencepost.resp.faults import ERRORS, fault_of

_PAGE = 1000
_BLOCK_MS = 500
_ANSWER_S = 10.0


class RedisStage:
    """See Stage."""

    def __init__(self, options: BrokerOptions, topic: str) -> None:
        """Raises ConfigurationError where the URL does not name the server itself."""
        self._address = address_of(options.url, "fencepost-demo")
        if self._address.sentinels or self._address.clustered:
            raise ConfigurationError(
                "the demonstration reads one Redis only", remedy="name a server: redis://host:port/0, or rediss://"
            )
        self._prefix = str(options.settings.get("prefix", ""))
        self._topic, self._stream = topic, f"{self._prefix}{topic}"

    @property
    def settings(self) -> Mapping[str, object]:
        """See Stage."""
        return {}

    async def create(self) -> None:
        """See Stage. The first batch makes the stream."""
        async with self._connected() as client:
            await client.ping()

    @asynccontextmanager
    async def following(self, on_entry: OnEntry) -> AsyncIterator[None]:
        """See Stage."""
        async with self._connected() as client, beside(self._follow(client, on_entry)):
            yield

    async def _follow(self, client: Any, on_entry: OnEntry) -> None:
        last = b"0"
        while True:
            for _, page in await client.xread({self._stream: last}, count=_PAGE, block=_BLOCK_MS):
                for _, fields in page:
                    on_entry(_entry(fields))
                last = page[-1][0]

    async def read_back(self) -> Sequence[Sequence[Entry]]:
        """See Stage. A stream is one partition."""
        found: list[Entry] = []
        async with self._connected() as client:
            first = "-"
            while page := await client.xrange(self._stream, first, count=_PAGE):
                found += [_entry(fields) for _, fields in page]
                first = f"({page[-1][0].decode()}"
        return [found]

    async def drop(self) -> None:
        """See Stage."""
        with suppress(FencepostError):  # the demonstration has said what it had to say
            async with self._connected() as client:
                relay = self._topic.removeprefix("fencepost-")
                own = [name async for name in client.scan_iter(f"{self._prefix}fencepost:*:{relay}.*", count=_PAGE)]
                await client.delete(self._stream, *own)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        timeouts = {"socket_timeout": _ANSWER_S, "socket_connect_timeout": _ANSWER_S}
        client = Redis.from_pool(ConnectionPool(**(dict(self._address.arguments) | timeouts)))
        try:
            yield client
        except ERRORS as error:
            raise fault_of(error, self._address.place) from error
        finally:
            with suppress(*ERRORS):  # what was asked has its answer already
                await client.aclose()


def _entry(fields: Mapping[bytes, bytes]) -> Entry:
    return entry({name.decode(): value.decode() for name, value in fields.items() if name.startswith(b"ce_")}, "ce_")
