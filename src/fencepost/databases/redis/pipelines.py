"""The transactions of redis-py: which pipelines are one, and whether one is open now."""

from __future__ import annotations

from typing import Any

import redis
import redis.asyncio as aredis
import redis.asyncio.cluster
import redis.cluster

from fencepost.errors import ConfigurationError, NoTransaction
from fencepost.newmessage import name_of_class

_ONE_NODE = (redis.client.Pipeline, aredis.client.Pipeline)
_CLUSTER = (redis.cluster.ClusterPipeline, redis.asyncio.cluster.ClusterPipeline)
_CLIENTS = (redis.Redis, aredis.Redis, redis.cluster.RedisCluster, redis.asyncio.cluster.RedisCluster)

_OPEN_ONE = "pass a pipeline: with client.pipeline() as pipe: ...; outbox.add(pipe, ...); pipe.execute()"


def must_be_open(pipe: Any) -> None:
    """Raise NoTransaction where commands on ``pipe`` would not share the fate of a MULTI/EXEC, ConfigurationError
    where it is no pipeline of redis-py.
    """
    if not isinstance(pipe, (*_ONE_NODE, *_CLUSTER)):
        if isinstance(pipe, _CLIENTS):
            raise NoTransaction("a client of Redis, without a transaction", remedy=_OPEN_ONE)
        raise ConfigurationError(f"a message cannot be added to {name_of_class(type(pipe))}", remedy=_OPEN_ONE)
    transaction, watching, explicit = _state(pipe)
    if watching and not explicit:
        raise NoTransaction("this pipeline watches keys and runs each command at once", remedy="call multi() first")
    if not transaction and not explicit:
        raise NoTransaction(
            "this pipeline has no MULTI", remedy="leave transaction at its default: client.pipeline(transaction=True)"
        )


def must_be_watchable(pipe: Any) -> None:
    """Raise NoTransaction where keys cannot be watched for the pipeline's transaction any more."""
    if not isinstance(pipe, (*_ONE_NODE, *_CLUSTER)):
        must_be_open(pipe)
    if _state(pipe)[2] or len(pipe) > 0:
        raise NoTransaction("the pipeline's transaction has begun already", remedy="watch before multi()")


def queue(pipe: Any) -> list[Any]:
    """The commands that wait for EXEC: another list for each transaction of a pipeline."""
    found: list[Any] = pipe.command_stack if isinstance(pipe, _ONE_NODE) else pipe._execution_strategy._command_queue
    return found


def _state(pipe: Any) -> tuple[bool, bool, bool]:
    """Whether it sends MULTI; whether it watches keys; whether ``multi()`` was called."""
    if isinstance(pipe, _ONE_NODE):
        transaction = pipe.transaction if isinstance(pipe, redis.client.Pipeline) else pipe.is_transaction
        return bool(transaction), bool(pipe.watching), bool(pipe.explicit_transaction)
    strategy: Any = pipe._execution_strategy
    if type(strategy).__name__ != "TransactionStrategy":
        return False, False, False
    return True, bool(strategy._watching), bool(strategy._explicit_transaction)
