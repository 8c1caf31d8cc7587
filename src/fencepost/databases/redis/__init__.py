"""Redis as an outbox, on redis-py: for applications that keep their data there."""

from __future__ import annotations

from fencepost.databases.redis.outbox import Prepared, RedisOutbox, with_version
from fencepost.databases.redis.schema import RedisSchema
from fencepost.databases.redis.session import RedisSession
from fencepost.databases.redis.source import RedisSource
from fencepost.newmessage import JSON, Encoder, NewMessage
from fencepost.ports import DatabaseOptions

__all__ = [
    "JSON",
    "Encoder",
    "NewMessage",
    "Prepared",
    "RedisOutbox",
    "RedisSchema",
    "RedisSession",
    "RedisSource",
    "schema",
    "source",
    "with_version",
]


def source(options: DatabaseOptions) -> RedisSource:
    """The plug-in's factory for sources."""
    return RedisSource(options)


def schema(options: DatabaseOptions) -> RedisSchema:
    """The plug-in's factory for schemas."""
    return RedisSchema(options)
