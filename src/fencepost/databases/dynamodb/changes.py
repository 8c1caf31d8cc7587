"""What a relay changes: a write names a message by position and id, and changes nothing where another one stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.aws.client import Client
from fencepost.clock import Clock
from fencepost.databases.dynamodb import tables
from fencepost.databases.dynamodb.items import attributes_of, number, shortened
from fencepost.databases.dynamodb.many import Action, write
from fencepost.databases.dynamodb.position import names
from fencepost.databases.dynamodb.tables import Attributes, delayed_key, key, pending_key
from fencepost.message import Message, Position, Stored, microseconds


class Changes:
    """The writes of one session to one table."""

    def __init__(self, client: Client, clock: Clock, table: str, buckets: int) -> None:
        self._client, self._clock, self._table, self._buckets = client, clock, table, buckets

    async def settle(self, rows: Sequence[tuple[Position, str]]) -> int:
        """Delete the messages, those that are delayed too; how many there were."""
        named = [
            (str(position), message_id) for position, message_id in dict.fromkeys(rows) if names(position, message_id)
        ]
        done = await self._each([self._delete(pending_key(p, self._buckets), i) for p, i in named])
        rest = [row for row, is_done in zip(named, done, strict=True) if not is_done]
        late = await self._each([self._delete(delayed_key(p, self._buckets), i) for p, i in rest])
        return sum(done) + sum(late)

    async def in_doubt(self, rows: Sequence[Stored], token: int) -> None:
        """Mark the messages with the token of who sends them."""
        await self._each([self._update(m, "SET doubt = :t", {":t": number(token)}) for m in rows])

    async def failed(self, rows: Sequence[tuple[Stored, str]]) -> None:
        """Count an attempt of each message and keep its error."""
        await self._each(
            [
                self._update(m, "SET last_error = :e ADD attempts :one", {":e": _text(error), ":one": number(1)})
                for m, error in rows
            ]
        )

    async def park(self, rows: Sequence[tuple[Stored, str]]) -> None:
        """Move the messages to the parked ones."""
        parked_at = number(microseconds(self._clock.now()))
        groups = []
        for m, reason in rows:
            item = {
                **attributes_of(_message(m), None),
                **key(tables.PARKED, str(m.position)),
                "attempts": number(m.attempts + 1),
                "parked_at": parked_at,
                "reason": _text(reason),
            }
            groups.append([self._delete(self._key(m), m.id), {"Put": {"TableName": self._table, "Item": item}}])
        await write(self._client, self._clock, groups)

    async def _each(self, actions: Sequence[Action]) -> list[bool]:
        return await write(self._client, self._clock, [[action] for action in actions])

    def _key(self, m: Stored) -> Attributes:
        return pending_key(str(m.position), self._buckets)

    def _delete(self, where: Attributes, message_id: str) -> Action:
        return {"Delete": {**self._named(where), "ExpressionAttributeValues": {":i": {"S": message_id}}}}

    def _update(self, m: Stored, change: str, values: dict[str, Any]) -> Action:
        every = {":i": {"S": m.id}, **values}
        return {"Update": {**self._named(self._key(m)), "UpdateExpression": change, "ExpressionAttributeValues": every}}

    def _named(self, where: Attributes) -> dict[str, Any]:
        return {"TableName": self._table, "Key": where, "ConditionExpression": "id = :i"}


def _text(text: str) -> dict[str, Any]:
    return {"S": shortened(text)}


def _message(m: Stored) -> Message:
    return Message(
        id=m.id,
        topic=m.topic,
        payload=m.payload,
        occurred_at=m.occurred_at,
        key=m.key,
        version=m.version,
        type=m.type,
        content_type=m.content_type,
        headers=m.headers or {},
    )
