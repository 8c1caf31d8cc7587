"""Where a broker in Redis is: a link to the server that has its keys, what that server takes, and its replicas."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.brokers.redis.settings import Settings
from fencepost.errors import ConnectionLost, Unavailable
from fencepost.ports import BrokerOptions
from fencepost.resp.address import Address
from fencepost.resp.keeping import must_keep, settings
from fencepost.resp.link import Link
from fencepost.resp.server import home_of
from fencepost.words import counted

_VALUE_BYTES = 536_870_912
_COMMAND_BYTES = 1_073_741_824
"""Redis' own defaults of proto-max-bulk-len and client-query-buffer-limit."""
_ROOM = 65_536
"""Of a command, for what is not a message: keys, lengths, the receipt."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server takes, in bytes: of one message, and of all messages of a script."""

    message_bytes_max: int
    batch_bytes_max: int


@dataclass(frozen=True, slots=True)
class Place:
    """One link. It lives until its first trouble."""

    link: Link
    settings: Settings
    limits: Limits
    create: bool
    timeout_s: float

    async def replicated(self) -> None:
        """Return when the replicas that are asked for have all that was written on this link.

        Raises Unavailable where they do not within the deadline.
        """
        wanted = self.settings.wait_replicas
        if not wanted:
            return
        ask = ("WAIT", wanted, int(self.timeout_s * 1000))
        (found,) = await self.link.ask(ask, beyond_s=self.timeout_s)
        if found < wanted:
            raise Unavailable(
                f"{self.link.place}: {counted(found, 'replica')} of {wanted} has what was written",
                remedy="bring the replicas back, or lower wait_replicas in [broker]",
            )


async def placed(address: Address, own: Settings, options: BrokerOptions) -> Place:
    """A new link to the server that has the keys. Raises what ``home_of`` raises, and ConfigurationError for a server
    that removes messages.
    """
    try:
        home = await home_of(address, own.prefix, options.timeout_s)
    except ConnectionLost as error:
        raise Unavailable(error.what, remedy=error.remedy) from error
    try:
        must_keep(home.server, address.place)
        limits = await _limits(home.link, own)
    except BaseException:
        await home.link.end("connecting failed")
        raise
    return Place(home.link, own, limits, options.create, options.timeout_s)


async def _limits(link: Link, own: Settings) -> Limits:
    """A larger value or command ends the connection, each time that it is tried."""
    told = await settings(link, "proto-max-bulk-len", "client-query-buffer-limit")
    value = int(told.get("proto-max-bulk-len", _VALUE_BYTES))
    command = int(told.get("client-query-buffer-limit", _COMMAND_BYTES)) // 2 - _ROOM
    return Limits(min(own.message_bytes_max, value, command), command)
