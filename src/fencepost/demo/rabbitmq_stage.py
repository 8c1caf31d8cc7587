"""The demonstration's topic on RabbitMQ: an exchange with one queue to follow and one that keeps all to read back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from aiormq import Connection
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import AMQPError

from fencepost.brokers.rabbitmq.address import Address
from fencepost.brokers.rabbitmq.settings import Settings
from fencepost.demo.readers import OnEntry, beside, entry
from fencepost.errors import FencepostError, Unavailable
from fencepost.history import Entry
from fencepost.ports import BrokerOptions

_MESSAGE_S = 20.0


class RabbitStage:
    """See Stage."""

    def __init__(self, options: BrokerOptions, topic: str) -> None:
        """The options are read as the relay reads them: how to log in, which certificates to trust."""
        own = Settings.read(options.settings)
        address = Address.of(options.url)
        self._urls, self._tls = list(address.urls(own)), own.tls_context(address.tls)
        self._exchange, self._followed, self._kept = topic, f"{topic}.followed", f"{topic}.kept"
        self._prefix = own.header_prefix

    @property
    def settings(self) -> Mapping[str, object]:
        """See Stage."""
        return {"exchange": self._exchange}

    async def create(self) -> None:
        """See Stage."""
        async with self._channel() as channel:
            await channel.exchange_declare(self._exchange, exchange_type="fanout", durable=True)
            for queue in (self._followed, self._kept):
                await channel.queue_declare(queue, durable=True)  # classic: hands out all at once, unacknowledged
                await channel.queue_bind(queue, self._exchange)

    def following(self, on_entry: OnEntry) -> AbstractAsyncContextManager[None]:
        """See Stage. A server that is restarted meanwhile is connected to again."""
        return beside(self._follow(on_entry))

    async def read_back(self) -> Sequence[Sequence[Entry]]:
        """See Stage. A queue is one partition. Nothing is acknowledged, so it can be read again."""
        found: list[Entry] = []
        enough = asyncio.Event()
        async with self._channel() as channel:
            count = (await channel.queue_declare(self._kept, passive=True)).message_count

            async def keep(message: DeliveredMessage) -> None:
                found.append(self._entry(message))
                if len(found) >= count:
                    enough.set()

            if count:
                await channel.basic_consume(self._kept, keep)
                async with asyncio.timeout(_MESSAGE_S + count / 500):
                    await enough.wait()
        return [found]

    async def drop(self) -> None:
        """See Stage."""
        with suppress(FencepostError):  # the demonstration has said what it had to say
            async with self._channel() as channel:
                for queue in (self._followed, self._kept):
                    await channel.queue_delete(queue)
                await channel.exchange_delete(self._exchange)

    async def _follow(self, on_entry: OnEntry) -> None:
        async def on_message(message: DeliveredMessage) -> None:
            on_entry(self._entry(message))

        while True:
            with suppress(FencepostError):  # only what is shown while it runs; the end is read without this
                async with self._channel() as channel:
                    await channel.basic_consume(self._followed, on_message, no_ack=True)
                    await asyncio.wait([channel.closing])

    @asynccontextmanager
    async def _channel(self) -> AsyncIterator[Any]:
        connection = await self._connected()
        try:
            yield await connection.channel()
        except (AMQPError, OSError, TimeoutError) as error:
            raise Unavailable(f"RabbitMQ does not do what the demonstration needs: {error}") from error
        finally:
            with suppress(AMQPError, OSError):  # what was asked has its answer already
                await connection.close()

    async def _connected(self) -> Connection:
        problem: Exception | None = None
        for url in self._urls:
            connection = Connection(url, context=self._tls)
            try:
                await connection.connect()
            except (AMQPError, OSError) as error:
                problem = error
                continue
            return connection
        raise Unavailable(
            f"RabbitMQ cannot be reached: {problem}",
            remedy="check --broker, or [broker] of the file that --config names",
        ) from problem

    def _entry(self, message: DeliveredMessage) -> Entry:
        headers = message.header.properties.headers or {}
        return entry({name: str(value) for name, value in headers.items()}, self._prefix)
