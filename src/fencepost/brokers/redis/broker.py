"""The broker: one connection for all lanes, made again where it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from fencepost.brokers.redis.encode import Encoder
from fencepost.brokers.redis.handoff import RedisHandoff, take_over
from fencepost.brokers.redis.keys import Keys, fault
from fencepost.brokers.redis.place import Place, placed
from fencepost.brokers.redis.scripts import REHEARSE
from fencepost.brokers.redis.settings import Settings
from fencepost.brokers.redis.streams import Streams
from fencepost.errors import AccessDenied
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Lane, Term
from fencepost.resp.address import address_of
from fencepost.resp.keeping import advice
from fencepost.resp.server import is_tagged, untagged


class RedisBroker:
    """``fencepost.ports.Broker`` says what each call promises."""

    def __init__(self, options: BrokerOptions) -> None:
        """Raises ConfigurationError."""
        self._options, self._settings = options, Settings.read(options.settings)
        self._address = address_of(options.url, "fencepost-broker")
        self._keys = Keys(self._settings.prefix)
        if self._address.clustered and not is_tagged(self._settings.prefix):
            raise untagged(self._settings.prefix, self._address.place)
        self._encoder = Encoder(options.envelope("ce_"), self._settings)
        self._connecting = asyncio.Lock()
        self._place: Place | None = None

    async def open(self) -> Capabilities:
        """See Broker."""
        limits = (await self._found()).limits
        return Capabilities(
            delivery=Delivery.ATOMIC,
            batch_max=self._settings.batch_max,
            message_bytes_max=limits.message_bytes_max,
        )

    async def advice(self) -> Sequence[str]:
        """How this server would serve better; see app.checking."""
        link = (await self._found()).link
        return await advice(link, ours="the streams", lost="every message that is in a stream, and the receipts")

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """See Broker. Streams and the lane's keys are made when they are first written to."""
        place = await self._found()
        if not place.create:
            names = [self._keys.stream(topic) for topic in topics if not fault(topic)]
            for error in (await Streams(place.link, create=False).faults(names)).values():
                raise error

    async def rehearse(self, lane: Lane) -> None:
        """Raise FixError where an owner of the lane would be refused. Changes nothing."""
        link = (await self._found()).link
        refused: bytes = await link.run(REHEARSE, (self._keys.lane(lane), self._keys.receipts(lane)))
        if refused:
            raise AccessDenied(
                f"{link.place}: the user may not use {refused.decode()} on {self._keys.lane(lane)!r} and"
                f" {self._keys.receipts(lane)!r}",
                remedy="give this user what is missing (ACL SETUSER): docs/redis-streams.md lists what the relay needs",
            )

    async def take_over(self, lane: Lane, term: Term) -> RedisHandoff:
        """See Broker."""
        return await take_over(await self._found(), self._encoder, lane, term, self._options.clock.new_id())

    async def close(self) -> None:
        """See Broker."""
        place, self._place = self._place, None
        if place is not None:
            await place.link.end("the broker's client was closed")

    async def _found(self) -> Place:
        async with self._connecting:
            if self._place is None or self._place.link.lost is not None:
                self._place = await placed(self._address, self._settings, self._options)
            return self._place
