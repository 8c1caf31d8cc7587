"""An application with an outbox in Redis, on redis-py's asyncio pipelines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from redis.asyncio import Redis

from fencepost import plugins
from fencepost.message import Message, Stored
from fencepost.ports import DatabaseOptions
from fencepost.testing.harness import Parked, Transaction, new_message


class _RedisTransaction:
    """Versions are drawn at EXEC. They are told before, as what nobody else will change in a test."""

    def __init__(self, writer: RedisWriter, pipe: Any) -> None:
        self._writer, self._pipe = writer, pipe
        self._counts: dict[tuple[str, str], int] = {}
        self.told: list[Message] = []

    async def add(self, *messages: Message) -> Sequence[Message]:
        self._writer.outbox.add_all(self._pipe, [new_message(m) for m in messages])
        told = [await self._versioned(m) for m in messages]
        self.told += told
        return told

    async def _versioned(self, m: Message) -> Message:
        if m.key is None or m.version is not None:
            return m
        entity = (m.topic, m.key)
        if entity not in self._counts:
            self._counts[entity] = await self._writer.last_version(m.topic, m.key)
        self._counts[entity] += 1
        return replace(m, version=self._counts[entity])


class RedisWriter:
    """``fencepost.testing.harness.Writer`` says what each call promises."""

    concurrent = False  # a transaction's positions are drawn when it is executed: none commits behind a later one

    def __init__(self, options: DatabaseOptions) -> None:
        plugin = plugins.load("database", "redis")
        self.outbox = plugin.RedisOutbox(prefix=options.prefix, max_bytes=None)
        self._prefix = options.prefix
        self._stored = plugin.entry.stored
        self._client: Any = Redis.from_url(options.url)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._client.pipeline() as pipe:
            transaction = _RedisTransaction(self, pipe)
            yield transaction
            replies = await pipe.execute()
        drawn = [None if version == b"" else int(version) for _, version in replies]
        assert drawn == [m.version for m in transaction.told], "versions were counted wrongly"

    async def last_version(self, topic: str, key: str) -> int:
        """The last version of an entity."""
        name = self.outbox.prepare(topic, None, key=key).keys[-1]
        return int(await self._client.hget(name, f"{topic} {key}") or 0)

    async def parked(self) -> Sequence[Parked]:
        entries = await self._client.xrange(f"{self._prefix}parked")
        return [self._parked(fields) for _, fields in entries]

    def _parked(self, fields: dict[bytes, bytes]) -> Parked:
        kept = [(name, fields[name]) for name in (b"version", b"message", b"payload") if name in fields]
        message: Stored = self._stored((fields[b"position"] + b"-0", [word for pair in kept for word in pair]))
        return Parked(message._replace(attempts=int(fields[b"attempts"])), fields[b"reason"].decode())

    async def last_error(self, message_id: str) -> str | None:
        for raw_id, fields in await self._client.xrange(f"{self._prefix}outbox"):
            if message_id.encode() in fields[b"message"]:
                error: bytes | None = await self._client.hget(f"{self._prefix}tries", raw_id + b" error")
                return None if error is None else error.decode()
        raise AssertionError(f"the message {message_id} is not in the outbox")

    async def connections(self) -> Collection[str] | None:
        return {str(client["id"]) for client in await self._client.client_list()}

    async def cut(self, connections: Collection[str]) -> None:
        for name in connections:
            await self._client.client_kill_filter(_id=name)

    async def close(self) -> None:
        names = [name async for name in self._client.scan_iter(match=f"{self._prefix}*", count=1000)]
        if names:
            await self._client.delete(*names)
        await self._client.aclose()


def writer(options: DatabaseOptions) -> RedisWriter:
    """The writer of one outbox."""
    return RedisWriter(options)
