"""The parked messages of an outbox in DynamoDB, for an operator: each is retried in a transaction of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from botocore.exceptions import ClientError

from fencepost.aws.client import Client
from fencepost.aws.faults import CONDITION, ERRORS, fault_of, reasons
from fencepost.databases.dynamodb import tables
from fencepost.databases.dynamodb.entity import Entity
from fencepost.databases.dynamodb.items import attributes_of, stored
from fencepost.databases.dynamodb.many import Action, write
from fencepost.databases.dynamodb.place import Place
from fencepost.databases.dynamodb.position import Times, position_of
from fencepost.databases.dynamodb.reading import Item
from fencepost.databases.dynamodb.tables import entity_key, key, pending_key
from fencepost.errors import Contention
from fencepost.message import Message, slot_of
from fencepost.ports import ParkedFilter, ParkedMessage
from fencepost.ports.parking import again, filtered_count, filtered_page, gone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRIES = 6
_PAUSE_S = 0.02


class DynamoParked:
    """``fencepost.ports.ParkedStore`` says what each call promises. A place is the position."""

    def __init__(self, place: Place, client: Client, buckets: int) -> None:
        self._client, self._buckets, self._table = client, buckets, place.outbox
        self._clock = place.options.clock
        self._times = Times(self._clock)

    async def page(
        self, which: ParkedFilter, limit: int, after: ParkedMessage | None = None
    ) -> Sequence[ParkedMessage]:
        return await filtered_page(self._read, which, limit, after)

    async def count(self, which: ParkedFilter) -> int:
        return await filtered_count(self._read, which)

    async def payload(self, parked: ParkedMessage) -> bytes | None:
        item = await self._item(key(tables.PARKED, str(parked.place)))
        if item is None:
            raise gone(self._client.place, parked)
        return stored(item).payload

    async def retry(self, rows: Sequence[ParkedMessage], *, keep_versions: bool = False) -> Sequence[str]:
        return [row.message.id for row in rows if await self._retry(str(row.place), keep=keep_versions)]

    async def discard(self, rows: Sequence[ParkedMessage]) -> Sequence[str]:
        done = await write(self._client, self._clock, [[self._delete(str(r.place), r.message.id)] for r in rows])
        return [row.message.id for row, is_done in zip(rows, done, strict=True) if is_done]

    async def close(self) -> None:
        await self._client.close()

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _read(self, most: int, after: ParkedMessage | None) -> Sequence[ParkedMessage]:
        """An answer has a megabyte at most, so several may be needed."""
        found: list[ParkedMessage] = []
        last = "" if after is None else str(after.place)
        ask = partial(self._client.call, "query", TableName=self._table, ConsistentRead=True)
        while len(found) < most:
            values = {":p": {"S": tables.PARKED}, **({":a": {"S": last}} if last else {})}
            condition = "pk = :p AND sk > :a" if last else "pk = :p"
            answer = await ask(
                KeyConditionExpression=condition, ExpressionAttributeValues=values, Limit=most - len(found)
            )
            found += [_parked(item) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                break
            last = answer["LastEvaluatedKey"]["sk"]["S"]
        return found

    async def _item(self, where: tables.Attributes) -> Item | None:
        answer = await self._client.call("get_item", TableName=self._table, Key=where, ConsistentRead=True)
        item: Item | None = answer.get("Item")
        return item

    # -- retrying -----------------------------------------------------------------------------------------------------

    async def _retry(self, position: str, *, keep: bool) -> bool:
        """Until nobody else has moved the entity between the look and the write."""
        item = await self._item(key(tables.PARKED, position))
        if item is None:
            return False
        message = again(stored(item), keep_version=True)
        for tried in range(_TRIES):
            done = await self._try(position, message, keep=keep)
            if done is not None:
                return done
            await self._clock.sleep(_PAUSE_S * 2**tried * (0.5 + self._clock.random()))
        raise Contention(f"{self._client.place}: others add to the key {message.key!r} all the time")

    async def _try(self, position: str, message: Message, *, keep: bool) -> bool | None:
        """Whether it was parked; None where somebody else was in the way."""
        actions = [self._delete(position, message.id), *await self._added(message, keep=keep)]
        try:
            await self._client.ask("transact_write_items", TransactItems=actions)
        except ClientError as error:
            codes = [reason.get("Code") for reason in reasons(error)]
            if codes[:1] == [CONDITION]:
                return False
            fault = fault_of(error, self._client.place)
            if isinstance(fault, Contention):
                return None
            raise fault from error
        except ERRORS as error:
            raise fault_of(error, self._client.place) from error
        return True

    async def _added(self, message: Message, *, keep: bool) -> list[Action]:
        """The writes that add it at the end of its key."""
        if message.key is None:
            return [self._put(message, self._position(message, 0), None)]
        there = await self._item(entity_key(message.topic, message.key))
        entity = Entity(message.topic, message.key, there)
        before, position = entity.position, self._position(message, entity.time_us)
        if keep:
            return [self._put(message, position, before)]
        if there is not None:
            message = replace(message, version=entity.version + 1)
        entity.grow(message, position, own=False)
        return [self._put(message, position, before), entity.update(self._table)]

    def _position(self, m: Message, above_us: int) -> str:
        return position_of(self._times.next_us(above_us), slot_of(m.key, m.id), m.id)

    def _put(self, m: Message, position: str, previous: str | None) -> Action:
        item = attributes_of(m, previous) | pending_key(position, self._buckets)
        return {"Put": {"TableName": self._table, "Item": item, "ConditionExpression": "attribute_not_exists(pk)"}}

    def _delete(self, position: str, message_id: str) -> Action:
        named = {"TableName": self._table, "Key": key(tables.PARKED, position), "ConditionExpression": "id = :i"}
        return {"Delete": {**named, "ExpressionAttributeValues": {":i": {"S": message_id}}}}


def _parked(item: Item) -> ParkedMessage:
    message = stored(item)
    payload = message.payload
    return ParkedMessage(
        message=message._replace(payload=None),
        payload_bytes=None if payload is None else len(payload),
        reason=item["reason"]["S"],
        parked_at=_EPOCH + timedelta(microseconds=int(item["parked_at"]["N"])),
        place=item["sk"]["S"],
    )
