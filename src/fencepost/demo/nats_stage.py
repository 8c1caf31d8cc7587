"""The demonstration's topic on NATS JetStream: a stream of its own, read by the client library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import nats
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import NotFoundError

from fencepost.brokers.nats.address import Address, connect_options
from fencepost.brokers.nats.settings import read
from fencepost.clock import Clock
from fencepost.demo.readers import OnEntry, entry
from fencepost.errors import Unavailable
from fencepost.history import Entry
from fencepost.ports import BrokerOptions

_STREAM_S = 30.0
_MESSAGE_S = 60.0
_PIECE = 500
_CONNECT_S = 5


class NatsStage:
    """See Stage."""

    def __init__(self, options: BrokerOptions, topic: str, clock: Clock) -> None:
        """The options are read as the relay reads them: how to log in, which certificates to trust."""
        own = read(options.settings)
        self._options, self._domain = connect_options(Address.of(options.url), own), own.domain or None
        self._topic, self._clock = topic, clock
        self._stream = topic.upper().replace("-", "_")

    @property
    def settings(self) -> Mapping[str, object]:
        """See Stage. The relays make the stream, as they do anywhere."""
        return {"stream": self._stream, "subjects": [self._topic]}

    async def create(self) -> None:
        """See Stage."""
        async with self._connected():
            pass

    @asynccontextmanager
    async def following(self, on_entry: OnEntry) -> AsyncIterator[None]:
        """See Stage."""

        async def on_message(message: Any) -> None:
            on_entry(_entry(message))

        async with self._connected() as client:
            stream = client.jetstream(domain=self._domain)
            await self._made(stream)
            await stream.subscribe(self._topic, stream=self._stream, ordered_consumer=True, cb=on_message)
            yield

    async def read_back(self) -> Sequence[Sequence[Entry]]:
        """See Stage. A stream is one partition."""
        async with self._connected() as client:
            stream = client.jetstream(domain=self._domain)
            info = await stream.stream_info(self._stream, subjects_filter=self._topic)
            count = (info.state.subjects or {}).get(self._topic, 0)
            # Asked for piece by piece: a consumer that is sent everything drops what it cannot hold.
            everything = ConsumerConfig(ack_policy=AckPolicy.NONE, inactive_threshold=_MESSAGE_S)
            subscription = await stream.pull_subscribe(self._topic, stream=self._stream, config=everything)
            entries: list[Entry] = []
            while len(entries) < count:
                entries += map(_entry, await subscription.fetch(min(_PIECE, count - len(entries)), timeout=_MESSAGE_S))
            return [entries]

    async def drop(self) -> None:
        """See Stage."""
        with suppress(NatsError, OSError, Unavailable, TimeoutError):
            async with self._connected() as client:
                await client.jetstream(domain=self._domain).delete_stream(self._stream)

    async def _made(self, stream: Any) -> None:
        give_up = self._clock.monotonic() + _STREAM_S
        while True:
            with suppress(NotFoundError):
                await stream.stream_info(self._stream)
                return
            if self._clock.monotonic() > give_up:
                raise Unavailable(f"no relay has made the stream {self._stream} within {_STREAM_S:g} s")
            await self._clock.sleep(0.1)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        failures: list[Exception] = []

        async def on_error(error: Exception) -> None:
            failures.append(error)

        try:
            client = await nats.connect(**self._options, connect_timeout=_CONNECT_S, error_cb=on_error)
        except (NatsError, OSError, TimeoutError) as error:
            why = next((f for f in reversed(failures) if str(f)), error)
            raise Unavailable(
                f"the NATS server cannot be reached: {why}",
                remedy="check --broker, or [broker] of the file that --config names",
            ) from error
        try:
            yield client
        finally:
            with suppress(NatsError, OSError, asyncio.TimeoutError):
                await client.close()


def _entry(message: Any) -> Entry:
    return entry(message.headers or {}, "ce-")
