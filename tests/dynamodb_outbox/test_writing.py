"""Adding to a transaction of DynamoDB: one fate with the business, versions by a condition, positions in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fencepost.clock import SystemClock
from fencepost.databases.dynamodb import AsyncDynamoOutbox, DynamoOutbox
from fencepost.errors import ConfigurationError, Contention, MessageRefused, SchemaMissing, VersionConflict
from tests.dynamodb_outbox.shop import LANE, Shop


class WrongClock(SystemClock):
    """A machine whose clock is wrong."""

    def __init__(self, by: timedelta) -> None:
        self._by = by

    def now(self) -> datetime:
        return super().now() + self._by


async def test_a_message_shares_the_fate_of_the_order(shop: Shop) -> None:
    """A1: the order's own condition cancels the message too."""
    for expected in (None, ClientError):
        transaction = shop.begin()
        await transaction.add("orders", {"id": 1}, key="1")
        if expected is None:
            await shop.commit(transaction, shop.new_order("1"))
            continue
        with pytest.raises(expected):
            await shop.commit(transaction, shop.new_order("1"))
    (message,) = await (await shop.session()).pending(LANE, 10)
    assert (message.key, message.version) == ("1", 1)


async def test_of_two_transactions_on_an_entity_the_second_begins_again(shop: Shop) -> None:
    """B2: a lost race is told as such, and nothing of it was written."""
    first, second = shop.begin(), shop.begin()
    for transaction in (first, second):
        assert (await transaction.add("orders", {}, key="1")).version == 1
    await shop.commit(first)
    items = second.items
    with pytest.raises(ClientError) as raised:
        await shop.client.ask("transact_write_items", TransactItems=items)
    assert type(second.fault_of(raised.value, items)) is Contention
    again = shop.begin()
    assert (await again.add("orders", {}, key="1")).version == 2
    await shop.commit(again)
    assert [m.version for m in await (await shop.session()).pending(LANE, 10)] == [1, 2]


async def test_many_writers_of_one_entity_leave_no_gap(shop: Shop) -> None:
    """The loop that the documentation shows, from many tasks at once."""

    async def place() -> None:
        while True:
            transaction = shop.begin()
            await transaction.add("orders", {}, key="hot")
            items = transaction.items
            try:
                await shop.client.ask("transact_write_items", TransactItems=items)
            except ClientError as error:
                fault = transaction.fault_of(error, items)
                if not isinstance(fault, Contention):
                    raise
                continue
            return

    await asyncio.gather(*(place() for _ in range(12)))
    found = await (await shop.session()).pending(LANE, 100)
    assert [m.version for m in found] == list(range(1, 13))


async def test_a_condition_of_the_application_is_its_own_business(shop: Shop) -> None:
    """Also where the outbox lost a race in the same transaction: the application decides first."""
    await shop.commit(shop.begin(), shop.new_order("1"))
    lost, winner = shop.begin(), shop.begin()
    for transaction in (lost, winner):
        await transaction.add("orders", {}, key="1")
    await shop.commit(winner)
    items = [*lost.items, shop.new_order("1")]
    with pytest.raises(ClientError) as raised:
        await shop.client.ask("transact_write_items", TransactItems=items)
    assert lost.fault_of(raised.value, items) is None
    assert lost.fault_of(ValueError("something else"), items) is None


async def test_own_versions_must_be_newer(shop: Shop) -> None:
    """C2: the application's optimistic lock, before the write and at the write."""
    first = shop.begin()
    assert (await first.add("orders", {}, key="1", version=7)).version == 7
    with pytest.raises(VersionConflict, match=r"version 7 of '1' on topic 'orders' is not above 7"):
        await first.add("orders", {}, key="1", version=7)
    stale, newer = shop.begin(), shop.begin()
    await stale.add("orders", {}, key="1", version=7)
    await newer.add("orders", {}, key="1", version=9)
    await shop.commit(first)
    for transaction, expected in ((stale, VersionConflict), (newer, Contention)):
        items = transaction.items
        with pytest.raises(ClientError) as raised:
            await shop.client.ask("transact_write_items", TransactItems=items)
        assert type(transaction.fault_of(raised.value, items)) is expected
    drawn = shop.begin()
    assert (await drawn.add("orders", {}, key="1")).version == 8


async def test_several_messages_of_an_entity_in_one_transaction(shop: Shop) -> None:
    transaction = shop.begin()
    added = [await transaction.add("orders", n, key=key) for n, key in enumerate("abab")]
    assert [m.version for m in added] == [1, 1, 2, 2]
    assert len(transaction.items) == 6
    await shop.commit(transaction)
    assert [m.id for m in await (await shop.session()).pending(LANE, 10)] == [m.id for m in added]


@pytest.mark.parametrize("hours", [-1, 1])
async def test_positions_of_a_key_grow_whatever_the_clocks_say(shop: Shop, hours: int) -> None:
    """B3: commits of two machines, one of which is an hour off; order of commit = version = position."""
    wrong = AsyncDynamoOutbox(prefix=shop.options.prefix, clock=WrongClock(timedelta(hours=hours)))
    for outbox in (wrong, shop.outbox, wrong, shop.outbox):
        transaction = shop.begin(outbox)
        await transaction.add("orders", {}, key="1")
        await shop.commit(transaction)
    found = await (await shop.session()).pending(LANE, 10)
    assert [m.version for m in found] == [1, 2, 3, 4]


async def test_a_position_is_never_that_of_another_message(shop: Shop) -> None:
    """One microsecond, one slot, many messages: the digest of the id keeps them apart."""

    class Still(SystemClock):
        def now(self) -> datetime:
            return datetime.fromisoformat("2026-03-29T12:00:00+00:00")

    outboxes = [AsyncDynamoOutbox(prefix=shop.options.prefix, clock=Still()) for _ in range(5)]
    for number, outbox in enumerate(outboxes):
        transaction = shop.begin(outbox)
        await transaction.add("orders", number, key=f"{number}")
        await shop.commit(transaction)
    assert len({m.position for m in await (await shop.session()).pending(LANE, 10)}) == 5


async def test_a_message_that_no_item_can_hold_is_refused(shop: Shop) -> None:
    """E1: with sizes, before anything is written, and the transaction is as it was."""
    transaction = shop.begin()
    await transaction.add("orders", b"", key="1")
    with pytest.raises(MessageRefused, match=r"item of 4\d\d,\d\d\d bytes; DynamoDB takes 409,600"):
        await transaction.add("orders", bytes(400_000), key="1")
    assert len(transaction.items) == 2
    await shop.commit(transaction)
    largest = shop.begin()
    await largest.add("orders", bytes(388_700), key="1", headers={"a": "\U0001f600" * 100})
    await shop.commit(largest)
    session = await shop.session()
    message = (await session.pending(LANE, 10))[-1]
    await session.failed([(message, "\U0001f600" * 10_000)])  # the longest error finds room
    await session.park([(message._replace(attempts=1), "\U0001f600" * 10_000)])
    assert len(await session.pending(LANE, 10)) == 1


async def test_a_transaction_that_is_too_large_is_refused(shop: Shop) -> None:
    transaction = shop.begin()
    for _ in range(11):
        await transaction.add("orders", bytes(380_000))
    with pytest.raises(MessageRefused, match=r"would have 4,\d\d\d,\d\d\d bytes; DynamoDB takes 4,194,304"):
        await transaction.add("orders", bytes(380_000))
    assert len(transaction.items) == 11
    many = shop.begin()
    for number in range(50):
        await many.add("orders", {}, key=f"{number}")
    with pytest.raises(MessageRefused, match="more than 100 writes"):
        await many.add("orders", {}, key="50")
    assert len(many.items) == 100
    await shop.commit(many)


async def test_a_table_that_is_no_outbox_is_told(shop: Shop) -> None:
    outbox = AsyncDynamoOutbox(prefix=shop.options.prefix)
    await shop.client.call(
        "delete_item", TableName=outbox.table, Key={"pk": {"S": "settings"}, "sk": {"S": "settings"}}
    )
    with pytest.raises(SchemaMissing, match="fencepost schema apply"):
        await shop.begin(outbox).add("orders", {}, key="1")


async def test_a_client_that_blocks(shop: Shop, blocking: Callable[[], Any]) -> None:
    """boto3, as it is used in a handler."""
    client, outbox = blocking(), DynamoOutbox(prefix=shop.options.prefix)

    def place() -> int | None:
        transaction = outbox.transaction(client)
        message = transaction.add("orders", {"id": 1}, key="1", type="placed")
        client.transact_write_items(TransactItems=[shop.new_order("1"), *transaction.items])
        return message.version

    assert await asyncio.to_thread(place) == 1
    (found,) = await (await shop.session()).pending(LANE, 10)
    assert (found.payload, found.type) == (b'{"id":1}', "placed")


async def test_the_wrong_kind_of_client_is_told(shop: Shop, blocking: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError, match="use DynamoOutbox, whose calls are not awaited"):
        await shop.outbox.transaction(blocking()).add("orders", {})
    with pytest.raises(ConfigurationError, match="use AsyncDynamoOutbox, and await its calls"):
        DynamoOutbox(prefix=shop.options.prefix).transaction(shop.begin()._client).add("orders", {})


async def test_the_client_of_a_resource_is_told(shop: Shop, blocking: Callable[[], Any]) -> None:
    """It writes attributes in another form, so that every item would be wrong."""
    import boto3

    address = blocking().meta.endpoint_url
    keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
    resource = boto3.resource("dynamodb", region_name="eu-west-1", endpoint_url=address, **keys)
    outbox = DynamoOutbox(prefix=shop.options.prefix)
    with pytest.raises(ConfigurationError, match="not that of a resource"):
        await asyncio.to_thread(lambda: outbox.transaction(resource.meta.client).add("orders", {}))
