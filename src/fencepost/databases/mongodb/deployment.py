"""What kind of server answers, and whether an outbox can live there."""

from __future__ import annotations

from pymongo.errors import PyMongoError

from fencepost.databases.mongodb.connection import Outbox
from fencepost.errors import ConfigurationError, Unavailable
from fencepost.mongo.address import EMBEDDED
from fencepost.mongo.client import Client

_WIRE_OF_5_0 = 13
_PRIMARY = "name all members and the replica set in the URL (?replicaSet=...), without directConnection"


def check_writable(outbox: Outbox, client: Client) -> str:
    """The kind of the server that takes writes. Raises Unavailable where there is none.

    ``client`` is connected.
    """
    servers = client.topology_description.server_descriptions().values()
    kinds = {server.server_type_name for server in servers}
    for kind in ("RSPrimary", "Mongos", "LoadBalancer", "Standalone"):
        if kind in kinds:
            return kind
    raise Unavailable(f"{outbox.place} is not a primary ({', '.join(sorted(kinds))})", remedy=_PRIMARY)


def check_transactions(outbox: Outbox, client: Client) -> None:
    """Raise ConfigurationError where the server has no transactions, or cannot be read at one moment."""
    kind = check_writable(outbox, client)
    if kind == "Standalone":
        raise ConfigurationError(
            f"{outbox.place} is a standalone server, which has no transactions",
            remedy=f"make it a replica set, of one member if need be (rs.initiate()), or keep the messages inside your"
            f" business documents: {EMBEDDED}://... needs no transactions",
        )
    wire = min(
        s.max_wire_version for s in client.topology_description.server_descriptions().values() if s.max_wire_version
    )
    if wire < _WIRE_OF_5_0:
        raise ConfigurationError(
            f"{outbox.place} is older than MongoDB 5.0, which cannot be read as it was at one moment",
            remedy=f"upgrade it, or keep the messages inside your business documents ({EMBEDDED}://...)",
        )


async def has_streams(client: Client, database: str) -> bool:
    """Whether changes can be watched there, by this user."""
    try:
        async with await client[database].watch(max_await_time_ms=1):
            return True
    except PyMongoError:
        return False
