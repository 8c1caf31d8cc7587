"""The demonstration's topic on NATS JetStream: a stream of its own, read by ordered consumers of the client library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import nats
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from fencepost.brokers.nats.address import Address, connect_options
from fencepost.brokers.nats.settings import Settings
from fencepost.clock import Clock
from fencepost.demo.readers import OnEntry, entry
from fencepost.errors import Unavailable
from fencepost.history import Entry
from fencepost.ports import BrokerOptions

_STREAM_S = 30.0
_MESSAGE_S = 10.0
_CONNECT_S = 5


class NatsStage:
    """See Stage."""

    def __init__(self, options: BrokerOptions, topic: str, clock: Clock) -> None:
        """The options are read as the relay reads them: how to log in, which certificates to trust."""
        own = Settings.read(options.settings)
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
            subscription = await stream.subscribe(self._topic, stream=self._stream, ordered_consumer=True)
            return [[_entry(await subscription.next_msg(timeout=_MESSAGE_S)) for _ in range(count)]]

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
