"""What the tests of the Redis broker share: brokers, and what a plain client reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import redis

from fencepost.brokers.redis import broker
from fencepost.brokers.redis.broker import RedisBroker
from fencepost.brokers.redis.handoff import RedisHandoff
from fencepost.message import Position, Stored
from fencepost.ports import BrokerOptions, Lane
from fencepost.receipt import digest
from tests.brokers.opened import opened
from tests.brokers.rows import term


def names(batch: Iterable[Stored]) -> set[tuple[Position, int]]:
    """What the receipt of a batch names."""
    return {(m.position, digest(m.id)) for m in batch}


@dataclass(frozen=True)
class Place:
    """A server, and the prefix and the relay of a test's own there."""

    url: str
    name: str

    @property
    def prefix(self) -> str:
        """What the names of all keys begin with."""
        return f"{self.name}:"

    @property
    def lane(self) -> Lane:
        """The only lane of the relay."""
        return Lane(self.name)

    def broker(self, *, url: str = "", create: bool = True, timeout_s: float = 20.0, **settings: object) -> RedisBroker:
        """A broker for this place."""
        given = {"prefix": self.prefix} | settings
        return broker(
            BrokerOptions(url=url or self.url, source="/shop", create=create, timeout_s=timeout_s, settings=given)
        )

    def opened(self, **options: Any) -> AbstractAsyncContextManager[RedisBroker]:
        """A broker that is open."""
        return opened(self.broker(**options))

    @asynccontextmanager
    async def handoff(self, token: int = 1, **options: Any) -> AsyncIterator[RedisHandoff]:
        """The right to publish, on a connection of its own."""
        async with self.opened(**options) as one:
            handoff = await self.owner(one, token)
            yield handoff
            await handoff.close()

    async def owner(self, one: RedisBroker, token: int = 1) -> RedisHandoff:
        """The right to publish, of a broker that is there."""
        return await one.take_over(self.lane, term(token, f"relay-{token}"))

    async def named(self, **options: Any) -> set[tuple[Position, int]]:
        """What the receipts name, by a take-over."""
        async with self.handoff(token=99, **options) as handoff:
            return handoff.receipts.named()


def entries(client: Any, stream: str) -> list[dict[str, bytes]]:
    """The fields of each entry, as redis-py reads them."""
    return [{name.decode(): value for name, value in fields.items()} for _, fields in client.xrange(stream)]


def ids(client: Any, stream: str) -> list[str]:
    """The ids of the messages of a stream."""
    return [fields["ce_id"].decode() for fields in entries(client, stream)]


def clean(client: redis.Redis, prefix: str) -> None:
    """Remove what begins with a prefix."""
    if found := list(client.scan_iter(match=f"{prefix}*", count=1000)):
        client.delete(*found)
