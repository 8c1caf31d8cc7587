"""Messages of one transaction: what goes into the application's own TransactWriteItems, beside its business.

    transaction = outbox.transaction(client)
    transaction.add("orders", {"id": 1}, key="1", type="placed")
    client.transact_write_items(TransactItems=[{"Put": ...}, *transaction.items])

Nothing is written before, and nothing is held: between ``add`` and the write somebody else may have added to the same
entity. Then the service refuses the whole transaction, ``fault_of`` says so, and the application begins again.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, Unpack, cast

from fencepost.databases.dynamodb import races
from fencepost.databases.dynamodb.entity import Entity
from fencepost.databases.dynamodb.items import attributes_of, check_size, number
from fencepost.databases.dynamodb.position import Times, position_of
from fencepost.databases.dynamodb.tables import SETTINGS, delayed_key, entity_key, pending_key
from fencepost.errors import ConfigurationError, Contention, MessageRefused, SchemaMissing, VersionConflict
from fencepost.flows import Flow, run, run_async
from fencepost.message import Message, microseconds, slot_of
from fencepost.newmessage import Attributes, MessageMaker, NewMessage, name_of_class

ACTIONS_MAX = 100
"""Writes of one transaction that DynamoDB takes."""

TRANSACTION_BYTES = 4_194_304
"""Bytes of one transaction that DynamoDB takes."""

Action = dict[str, Any]
Request = dict[str, Any]
"""The arguments of one ``get_item``."""

Answer = Mapping[str, Any]


class Writing(Protocol):
    """What a transaction needs of its outbox. ``buckets`` is None until it was read."""

    table: str
    maker: MessageMaker
    times: Times
    buckets: int | None


class _Transaction:
    """What both kinds share: everything but how a request is made."""

    def __init__(self, outbox: Writing, client: Any) -> None:
        self._outbox, self._client = outbox, client
        self._read: dict[tuple[str, str], Entity] = {}
        self._grown: dict[tuple[str, str], Entity] = {}
        self._puts: list[Action] = []
        self._bytes = 0

    @property
    def items(self) -> list[Action]:
        """The writes that belong into the application's TransactItems: all of them, together, in any order."""
        return [*(update for update, _ in self._updates()), *self._puts]

    def fault_of(
        self, error: BaseException, transact_items: Sequence[Mapping[str, Any]]
    ) -> Contention | VersionConflict | None:
        """What an error of ``transact_write_items`` means; ``transact_items`` is what was given to it.

        Contention: somebody else was first; nothing was written; begin again, with a new transaction.
        VersionConflict: a version that the application gave is not newer than the entity's last one.
        None: it is not about the outbox, but about another condition, or an error of another kind.
        """
        return races.fault_of(error, transact_items, self._updates(), self._puts)

    def _updates(self) -> list[tuple[Action, Entity]]:
        return [(entity.update(self._outbox.table), entity) for entity in self._grown.values()]

    def _add(self, new: NewMessage) -> Flow[Request, Answer, Message]:
        message = self._outbox.maker.make(new)
        buckets = yield from self._buckets()
        if message.key is None:
            self._put(message, self._position(message, 0), None, buckets)
            return message
        entity = yield from self._entity(message.topic, message.key)
        numbered = replace(message, version=entity.next_version(message))
        position = self._position(message, entity.time_us)
        self._put(numbered, position, entity, buckets)
        entity.grow(numbered, position, own=message.version is not None)
        return numbered

    def _position(self, m: Message, above_us: int) -> str:
        return position_of(self._outbox.times.next_us(above_us), slot_of(m.key, m.id), m.id)

    def _put(self, m: Message, position: str, entity: Entity | None, buckets: int) -> None:
        item = attributes_of(m, None if entity is None else entity.position)
        if m.available_at is None:
            item |= pending_key(position, buckets)
        else:
            item |= {**delayed_key(position, buckets), "due": number(microseconds(m.available_at))}
        total = self._checked_bytes(check_size(item, m.topic))
        self._check_actions(m, entity)
        self._bytes = total
        put = {"TableName": self._outbox.table, "Item": item, "ConditionExpression": "attribute_not_exists(pk)"}
        self._puts.append({"Put": put})

    def _checked_bytes(self, more: int) -> int:
        if self._bytes + more > TRANSACTION_BYTES:
            raise MessageRefused(
                f"the messages of this transaction would have {self._bytes + more:,} bytes; DynamoDB takes"
                f" {TRANSACTION_BYTES:,}",
                remedy="write fewer or smaller messages in one transaction",
            )
        return self._bytes + more

    def _check_actions(self, m: Message, entity: Entity | None) -> None:
        grown = {**self._grown} if entity is None else {**self._grown, (m.topic, str(m.key)): entity}
        if len(grown) + len(self._puts) + 1 > ACTIONS_MAX:
            raise MessageRefused(
                f"the messages of this transaction need more than {ACTIONS_MAX} writes (one each, and one for each"
                " entity), which DynamoDB does not take",
                remedy="write fewer messages in one transaction",
            )
        self._grown = grown

    def _buckets(self) -> Flow[Request, Answer, int]:
        """How many buckets there are: it never changes, so one read is enough."""
        if self._outbox.buckets is None:
            item = (yield from self._settings()).get("Item")
            if item is None:
                raise SchemaMissing(
                    f"the table {self._outbox.table} is not an outbox", remedy="run `fencepost schema apply`"
                )
            self._outbox.buckets = int(item["buckets"]["N"])
        return self._outbox.buckets

    def _settings(self) -> Flow[Request, Answer, Answer]:
        try:
            answer: Answer = yield self._get(SETTINGS)
        except Exception as error:
            if races.code_of(error) != "ValidationException":
                raise
            raise ConfigurationError(
                f"the table {self._outbox.table} does not take a key of this form: {error}",
                remedy='pass a client that boto3.client("dynamodb") makes, not that of a resource; check the prefix',
            ) from error
        return answer

    def _entity(self, topic: str, key: str) -> Flow[Request, Answer, Entity]:
        """The entity, read once in each transaction."""
        found = self._read.get((topic, key))
        if found is None:
            answer = yield self._get(entity_key(topic, key))
            found = self._read[topic, key] = Entity(topic, key, answer.get("Item"))
        return found

    def _get(self, key: dict[str, Any]) -> Request:
        return {"TableName": self._outbox.table, "Key": key, "ConsistentRead": True}


class DynamoTransaction(_Transaction):
    """For clients that block, such as ``boto3.client("dynamodb")``. Made by ``DynamoOutbox.transaction``."""

    def add(
        self,
        topic: str,
        payload: object,
        **attributes: Unpack[Attributes],
    ) -> Message:
        """Add one message; the arguments are those of ``NewMessage``. Returns it with its version.

        A message with a key reads its entity's item, once in each transaction. Raises MessageRefused, VersionConflict
        and SchemaMissing, after which the transaction is as it was before, and the client's own errors.
        """
        new = NewMessage(topic, payload, **attributes)
        return run(self._add(new), self._ask)

    def _ask(self, request: Request) -> Answer:
        answer: Any = self._client.get_item(**request)
        if inspect.iscoroutine(answer):
            answer.close()
            raise _wrong_client(self._client, "AsyncDynamoOutbox, and await its calls")
        return cast("Answer", answer)


class AsyncDynamoTransaction(_Transaction):
    """For clients that are awaited, such as aiobotocore's. Made by ``AsyncDynamoOutbox.transaction``."""

    async def add(
        self,
        topic: str,
        payload: object,
        **attributes: Unpack[Attributes],
    ) -> Message:
        """The same as ``DynamoTransaction.add``."""
        new = NewMessage(topic, payload, **attributes)
        return await run_async(self._add(new), self._ask)

    async def _ask(self, request: Request) -> Answer:
        answer: Any = self._client.get_item(**request)
        if not inspect.isawaitable(answer):
            raise _wrong_client(self._client, "DynamoOutbox, whose calls are not awaited")
        return cast("Answer", await answer)


def _wrong_client(client: object, use: str) -> ConfigurationError:
    return ConfigurationError(f"a message cannot be added through {name_of_class(type(client))}", remedy=f"use {use}")
