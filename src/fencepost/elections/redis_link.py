"""The two connections of a lease store in Redis. Each is made anew by the call that needs it after it was lost."""

from __future__ import annotations

import asyncio

from fencepost.errors import ConfigurationError, ConnectionLost
from fencepost.ports import LeaseOptions
from fencepost.resp.address import address_of
from fencepost.resp.link import Link
from fencepost.resp.listener import Heard, Listener, listening
from fencepost.resp.server import Home, home_of, is_tagged, untagged


class LeaseLinks:
    """``heard`` is told of what is published, and of the end of the listening connection."""

    def __init__(self, options: LeaseOptions, heard: Heard) -> None:
        if options.schema is not None:
            raise ConfigurationError("Redis has no schemas", remedy="leave schema out; tell leases apart by the prefix")
        self._prefix, self._timeout_s, self._heard = options.prefix, options.timeout_s, heard
        self._address = address_of(options.url, "fencepost-lease")
        if self._address.clustered and not is_tagged(options.prefix):
            raise untagged(options.prefix, self._address.place)
        self._home: Home | None = None
        self._listener: Listener | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    @property
    def listens(self) -> bool:
        """Whether there is a listening connection, as far as is known."""
        return self._listener is not None and not self._listener.lost

    def reopen(self) -> None:
        """Allow connecting again after ``close``."""
        self._closed = False

    async def asking(self) -> Link:
        """The link for scripts. Raises what ``home_of`` raises."""
        return (await self._found()).link

    async def listener(self) -> Listener:
        """The listening connection. Raises what ``home_of`` raises."""
        home = await self._found()
        async with self._turn:
            if self._listener is None or self._listener.lost:
                self._listener = await listening(self._address, self._timeout_s, home.node, self._heard)
            return self._listener

    async def close(self) -> None:
        """End both. Never raises."""
        self._closed = True
        home, self._home = self._home, None
        listener, self._listener = self._listener, None
        if home is not None:
            await home.link.end("this lease store was closed")
        if listener is not None:
            await listener.close()

    async def _found(self) -> Home:
        async with self._turn:
            if self._closed:
                raise ConnectionLost(f"{self._address.place}: this lease store was closed")
            if self._home is None or self._home.link.lost is not None:
                self._home = await home_of(self._address, self._prefix, self._timeout_s)
            return self._home
