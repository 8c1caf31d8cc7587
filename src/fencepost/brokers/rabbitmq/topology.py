"""Exchanges, queues and bindings: looked for, and declared where that is allowed.

A look (a passive declaration) needs no rights. What is there is used as it is, whatever its type and arguments are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from aiormq.exceptions import AMQPChannelError, ChannelNotFoundEntity

from fencepost.brokers.rabbitmq.faults import from_library
from fencepost.brokers.rabbitmq.link import Link
from fencepost.brokers.rabbitmq.settings import NAME_BYTES_MAX, Settings
from fencepost.errors import FencepostError, ParkError, SchemaMissing

_KNOWN_MAX = 10_000
_RESERVED = "amq."


class Topology:
    """What is known to be there. Forgotten with the connection: others may delete it meanwhile."""

    def __init__(self, settings: Settings, *, create: bool) -> None:
        self._settings, self._create = settings, create
        self._known: set[str] = set()

    async def ensure(self, link: Link) -> None:
        """The exchange, where all topics share one, and the queues of the settings, with their bindings.

        Raises SchemaMissing where one is missing and may not be created, another FixError where it cannot be.
        """
        settings = self._settings
        if settings.exchange and not settings.exchange_per_topic:
            await self._exchange(link, settings.exchange)
        for name in settings.queues:
            await self._queue(link, name)
        if self._create:
            await self._bind(link)

    async def ensure_topics(self, link: Link, topics: Collection[str]) -> dict[str, FencepostError]:
        """The exchange or the queue of each topic, where topics have one; why, for each that cannot be had.

        Without the right to create nothing is looked for: the server says of each message whether it had a place.
        """
        wrong: dict[str, FencepostError] = {}
        if not (self._create and (self._settings.exchange_per_topic or self._settings.queue_per_topic)):
            return wrong
        for topic in topics:
            if topic not in self._known and (error := await self._topic(link, topic)) is not None:
                wrong[topic] = error
        return wrong

    def forget(self, topic: str) -> None:
        """Look for it again before it is used the next time."""
        self._known.discard(topic)

    async def _topic(self, link: Link, topic: str) -> FencepostError | None:
        per_topic = self._settings.exchange_per_topic
        template = self._settings.exchange if per_topic else self._settings.routing_key
        name = template.replace("{topic}", topic)
        if fault := _fault(name):
            return ParkError(f"topic {topic[:300]!r} cannot be {name[:300]!r} at RabbitMQ: {fault}", at_once=True)
        try:
            await (self._exchange(link, name) if per_topic else self._queue(link, name))
        except FencepostError as error:
            if link.alive:
                return error
            raise
        if len(self._known) >= _KNOWN_MAX:  # topics taken from data must not fill the memory
            self._known.clear()
        self._known.add(topic)
        return None

    async def _exchange(self, link: Link, name: str) -> None:
        if await self._is_there(link, exchange=name):
            return
        if not self._create:
            kind = self._settings.exchange_type
            raise SchemaMissing(
                f"there is no exchange {name!r} at RabbitMQ",
                remedy=f"create it (type {kind}, durable), or set create = true so that the relay does",
            )
        try:
            async with link.separate() as channel:
                await channel.exchange_declare(name, exchange_type=self._settings.exchange_type, durable=True)
        except AMQPChannelError as error:
            raise from_library(error, f"creating the exchange {name!r}") from error

    async def _queue(self, link: Link, name: str) -> None:
        if await self._is_there(link, queue=name):
            return
        kind = self._settings.queue_type
        if not self._create:
            raise SchemaMissing(
                f"there is no queue {name!r} at RabbitMQ",
                remedy=f"create it (type {kind}, durable), or set create = true so that the relay does",
            )
        try:
            async with link.separate() as channel:
                await channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
        except AMQPChannelError as error:
            raise from_library(error, f"creating the queue {name!r}") from error

    async def _is_there(self, link: Link, *, exchange: str = "", queue: str = "") -> bool:
        what = f"the exchange {exchange!r}" if exchange else f"the queue {queue!r}"
        try:
            async with link.separate() as channel:
                if exchange:
                    await channel.exchange_declare(exchange, passive=True)
                else:
                    await channel.queue_declare(queue, passive=True)
        except ChannelNotFoundEntity:
            return False
        except AMQPChannelError as error:
            raise from_library(error, f"looking for {what}") from error
        return True

    async def _bind(self, link: Link) -> None:
        for queue, keys in self._settings.queues.items():
            for exchange, key in self._bindings(keys):
                if self._settings.exchange_per_topic:
                    await self._exchange(link, exchange)
                try:
                    async with link.separate() as channel:
                        await channel.queue_bind(queue, exchange, routing_key=key)
                except AMQPChannelError as error:
                    raise from_library(error, f"binding the queue {queue!r} to {exchange!r} by {key!r}") from error

    def _bindings(self, keys: Iterable[str]) -> Iterable[tuple[str, str]]:
        """Exchange and binding key. Where each topic has an exchange, what the settings list are topics."""
        settings = self._settings
        for key in keys:
            if settings.exchange_per_topic:
                everything = "#" if settings.exchange_type == "topic" else settings.routing_key.replace("{topic}", key)
                yield settings.exchange.replace("{topic}", key), everything
            else:
                yield settings.exchange, key


def _fault(name: str) -> str:
    """Why an exchange or a queue cannot have this name, "" where it can."""
    if name.startswith(_RESERVED):
        return f"names from {_RESERVED} on are the server's own"
    if not 0 < len(name.encode(errors="replace")) <= NAME_BYTES_MAX:
        return f"a name has 1 to {NAME_BYTES_MAX} bytes"
    return ""
