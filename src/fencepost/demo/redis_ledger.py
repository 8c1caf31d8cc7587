"""A demonstration with Redis: orders in a hash, each written by a script that adds its message too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.redis import RedisOutbox
from fencepost.errors import FencepostError
from fencepost.history import Entry
from fencepost.resp.faults import ERRORS, fault_of

T = TypeVar("T")

_PLACE = """\
local added = fencepost_add(2, ARGV[2])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. ' ' .. added[2])
return added
"""


def _client(url: str) -> Any:
    """One that never sends a transaction twice: an answer that was lost leaves it open what became of it."""
    return Redis.from_url(url, retry=Retry(NoBackoff(), 0))


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ERRORS as error:
        raise fault_of(error, "the hash of orders") from error


class RedisDatabase:
    """``fencepost.demo.databases.Database`` says what each call promises; work gets a pipeline."""

    ends_sessions = True

    def __init__(self, url: str) -> None:
        self._client = _client(url)

    async def run(self, work: Callable[[Any], T], *, keep: bool = True, open_s: float = 0.0) -> T:
        with _translated():
            async with self._client.pipeline() as pipe:
                result = work(pipe)
                await SYSTEM_CLOCK.sleep(open_s)
                if keep:
                    await pipe.execute()
        return result

    async def end_sessions(self, ports: Sequence[int]) -> None:
        ends = tuple(f":{port}" for port in ports)
        with _translated():
            for client in await self._client.client_list():
                if client["addr"].endswith(ends):
                    await self._client.client_kill_filter(_id=client["id"])

    async def close(self) -> None:
        with suppress(*ERRORS):
            await self._client.aclose()


class RedisLedger:
    """``fencepost.demo.ledgers.Ledger`` says what each call promises."""

    savepoints = False

    def __init__(self, url: str, prefix: str, topic: str) -> None:
        self._url, self._prefix, self._topic = url, prefix, topic
        self._outbox = RedisOutbox(prefix=prefix)
        self._script = self._outbox.script(_PLACE)

    def place(self, transaction: Any, customer: str, cents: int) -> str:
        payload = {"customer": customer, "cents": cents}
        added = self._outbox.prepare(self._topic, payload, key=customer, type="order.placed")
        keys = (f"{self._prefix}orders", *added.keys)
        transaction.eval(self._script, len(keys), *keys, added.message.id, added.argument, customer)
        return added.message.id

    async def create(self) -> None:
        """A hash is made when it is needed."""

    async def drop(self) -> None:
        with suppress(FencepostError):
            await self._asked(self._drop)

    async def _drop(self, client: Any) -> None:
        names = [name async for name in client.scan_iter(match=f"{self._prefix}*", count=1000)]
        if names:
            await client.unlink(*names)

    async def committed(self) -> Sequence[Entry]:
        rows = await self._asked(lambda client: client.hgetall(f"{self._prefix}orders"))
        pairs = [(id_.decode(), *value.decode().split()) for id_, value in rows.items()]
        return [Entry(id_, customer, int(version)) for id_, customer, version in pairs]

    async def _asked(self, ask: Callable[[Any], Any]) -> Any:
        client = _client(self._url)
        try:
            with _translated():
                return await ask(client)
        finally:
            with suppress(*ERRORS):
                await client.aclose()
