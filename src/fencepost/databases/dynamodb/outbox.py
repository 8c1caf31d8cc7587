"""The writing side of an outbox in DynamoDB. Make one for each outbox and keep it: threads and tasks may share it."""

from __future__ import annotations

from typing import Any

from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.databases.dynamodb.position import Times
from fencepost.databases.dynamodb.tables import OUTBOX
from fencepost.databases.dynamodb.transaction import AsyncDynamoTransaction, DynamoTransaction
from fencepost.newmessage import JSON, Encoder, MessageMaker


class _Adding:
    """What both kinds share."""

    def __init__(self, *, prefix: str = "fencepost_", encoder: Encoder = JSON, clock: Clock = SYSTEM_CLOCK) -> None:
        """``prefix`` is what the tables' names begin with: the path of the relay's URL and its ``prefix``, together."""
        self.table = f"{prefix}{OUTBOX}"
        self.maker = MessageMaker(max_bytes=None, encoder=encoder, clock=clock)
        self.times = Times(clock)
        self.buckets: int | None = None


class DynamoOutbox(_Adding):
    """Makes the writes of messages for transactions through a client that blocks."""

    def transaction(self, client: Any) -> DynamoTransaction:
        """The messages of one transaction of yours. ``client`` is what you write it with; it reads entities here."""
        return DynamoTransaction(self, client)


class AsyncDynamoOutbox(_Adding):
    """Makes the writes of messages for transactions through a client whose calls are awaited."""

    def transaction(self, client: Any) -> AsyncDynamoTransaction:
        """The same as ``DynamoOutbox.transaction``."""
        return AsyncDynamoTransaction(self, client)
