"""An empty outbox in the Redis of the tests, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from fencepost.databases.redis import RedisOutbox
from fencepost.ports import DatabaseOptions

TIMEOUT_S = 10.0


@pytest.fixture
def prefix(fresh_name: str) -> str:
    """What the names of a test's keys begin with."""
    return f"{fresh_name}:"


@pytest.fixture
def options(redis_url: str, prefix: str) -> DatabaseOptions:
    """An outbox of one's own."""
    return DatabaseOptions(url=redis_url, prefix=prefix, timeout_s=TIMEOUT_S)


@pytest.fixture
def outbox(prefix: str) -> RedisOutbox:
    """Its writing side."""
    return RedisOutbox(prefix=prefix)


@pytest.fixture
def client(redis_url: str, prefix: str) -> Iterator[Any]:
    """A blocking client; what begins with the prefix is removed at the end."""
    with redis.Redis.from_url(redis_url) as made:
        yield made
        names = list(made.scan_iter(match=f"{prefix}*", count=1000))
        if names:
            made.delete(*names)


@pytest.fixture
async def aclient(redis_url: str, client: Any) -> AsyncIterator[Any]:
    """The same, awaited."""
    async with redis.asyncio.Redis.from_url(redis_url) as made:
        yield made
