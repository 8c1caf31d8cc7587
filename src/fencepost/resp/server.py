"""The server that has certain keys, and what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from redis.crc import key_slot

from fencepost.errors import ConfigurationError, FencepostError, Unavailable
from fencepost.resp.address import Address, Node
from fencepost.resp.faults import READ_ONLY
from fencepost.resp.link import Link, opened

REDIS_MIN = (7, 0)

_TAG = re.compile(r"\{[^{}]+\}")


@dataclass(frozen=True, slots=True)
class Server:
    """What INFO tells."""

    told: Mapping[str, str]

    @property
    def run_id(self) -> str:
        """Another one each time that it is started."""
        return self.told.get("run_id", "")

    @property
    def clustered(self) -> bool:
        """Whether keys are spread over nodes."""
        return self.told.get("redis_mode") == "cluster"

    @property
    def version(self) -> tuple[int, ...]:
        """The version of Redis that it is compatible with, two numbers."""
        return tuple(int(part) for part in self.told.get("redis_version", "0").split(".")[:2] if part.isdigit())

    @property
    def evicts(self) -> str:
        """The maxmemory-policy by which keys without an expiry would be removed; "" where none would be."""
        policy = self.told.get("maxmemory_policy", "noeviction")
        return policy if policy.startswith("allkeys-") else ""

    @property
    def limited(self) -> bool:
        """Whether there is a limit at which it would remove keys."""
        return self.told.get("maxmemory", "0") != "0"


@dataclass(frozen=True, slots=True)
class Home:
    """Where keys are: a link, what the server is, and which node of a cluster (None: the address itself)."""

    link: Link
    server: Server
    node: Node | None


async def server_of(link: Link) -> Server:
    """Ask a server what it is."""
    text = (await link.one("INFO")).decode(errors="replace")
    pairs = (line.partition(":") for line in text.splitlines() if not line.startswith("#"))
    return Server({name: value for name, _, value in pairs})


async def home_of(address: Address, prefix: str, timeout_s: float) -> Home:
    """A new link to the primary that has the keys with this prefix.

    Raises ConfigurationError (a cluster, and no hash tag in the prefix; a server that is too old), Unavailable (also: a
    replica), AccessDenied or DeadlineExceeded.
    """
    link = await opened(address, timeout_s)
    try:
        server, node = await server_of(link), None
        if server.clustered:
            node = await _owner(link, address, prefix)
        if node is not None:
            await link.end("another node has the keys")
            link = await opened(address, timeout_s, node)
            server = await server_of(link)
        _check(server, address.place)
    except BaseException:
        await link.end("it will not do")
        raise
    return Home(link, server, node)


def is_tagged(prefix: str) -> bool:
    """Whether all keys with this prefix are in one slot of a cluster."""
    return _TAG.search(prefix) is not None


def untagged(prefix: str, place: str) -> ConfigurationError:
    """What is wrong with a prefix without a hash tag in a cluster."""
    whose = f"with the prefix {prefix!r}" if prefix else "without a prefix"
    return ConfigurationError(
        f"{place} is a cluster, and keys {whose} would be spread over it",
        remedy=f'begin the prefix with a hash tag, the one of your business keys: prefix = "{{shop}}:{prefix}"',
    )


async def _owner(link: Link, address: Address, prefix: str) -> Node | None:
    """The node that has the keys; None where it is the one that was asked."""
    if not is_tagged(prefix):
        raise untagged(prefix, address.place)
    slot = key_slot(prefix.encode())
    mine = (await link.one("CLUSTER", "MYID")).decode()
    for first, last, primary, *_ in await link.one("CLUSTER", "SLOTS"):
        if first <= slot <= last:
            host, port, name = (primary[0] or b"").decode(), int(primary[1]), primary[2].decode()
            return None if name == mine else (host or address.host, port)
    raise Unavailable(f"{address.place}: no node of the cluster has slot {slot}", remedy="CLUSTER INFO tells why")


def _check(server: Server, place: str) -> None:
    fault: FencepostError | None = None
    if server.told.get("role") == "slave":
        fault = Unavailable(f"{place} is a read-only replica", remedy=READ_ONLY)
    elif server.version < REDIS_MIN:
        text = ".".join(map(str, server.version))
        fault = ConfigurationError(f"{place} is a Redis {text}", remedy="use Redis 7.0, Valkey 7.2, or later")
    if fault is not None:
        raise fault
