"""What goes wrong with DynamoDB: tables that are not right, servers that do not answer, backups that are restored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from fencepost.aws.address import address_of
from fencepost.aws.client import Client
from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.dynamodb import DynamoSchema, DynamoSource
from fencepost.databases.dynamodb.tables import creations
from fencepost.elections.dynamodb import lease_store
from fencepost.errors import (
    ConnectionLost,
    Contention,
    DeadlineExceeded,
    FixError,
    SchemaMissing,
    Unavailable,
)
from fencepost.events import ReceiptsSettled
from fencepost.ports import LeaseOptions
from fencepost.relay.lane import LaneOptions
from fencepost.testing.relaying import relayed
from tests.databases.proxy import proxy
from tests.dynamodb_outbox.shop import LANE, Shop

OPTIONS = LaneOptions(batch=10, poll_s=0.05, retry_base_s=0.01, retry_cap_s=0.02)


async def replace_table(shop: Shop, items: Sequence[dict[str, Any]]) -> None:
    """Delete the outbox's table and make it again with other items, as who restores a backup under its name does."""
    request, _ = creations(shop.outbox.table, "unused")
    await shop.client.call("delete_table", TableName=shop.outbox.table)
    await shop.client.call("create_table", **request)
    for item in items:
        await shop.client.call("put_item", TableName=shop.outbox.table, Item=item)


async def test_a_backup_that_is_restored_repeats_and_loses_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A15: settled messages come back, and the receipts recognise them; what is added later is published."""
    monkeypatch.setattr("fencepost.databases.dynamodb.session.CHECKED_EVERY_S", 0.0)
    before = await shop.add(*"abcab", None, None)
    backup = await shop.everything()
    async with relayed(shop.source, LANE, OPTIONS) as relay:
        await relay.until(lambda: len(relay.ids("orders")) == len(before))
        before += await shop.add("a", "b")
        await relay.until(lambda: len(relay.ids("orders")) == len(before))
        await replace_table(shop, backup)
        after = await shop.add("c", "a", None)
        await relay.until(lambda: len(relay.ids("orders")) >= len(before) + len(after))
        await asyncio.sleep(0.2)
        assert any(told.rows == 7 for told in relay.told(ReceiptsSettled))
    assert relay.ids("orders") == before + after
    assert (await shop.source.backlog()).pending == 0


async def test_a_table_that_was_replaced_ends_the_session(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that went on would not settle the receipts first."""
    monkeypatch.setattr("fencepost.databases.dynamodb.session.CHECKED_EVERY_S", 0.0)
    session = await shop.session()
    await session.pending(LANE, 10)
    await replace_table(shop, await shop.everything())
    for _ in range(2):
        with pytest.raises(ConnectionLost, match="another one than it was"):
            await session.pending(LANE, 10)
    assert list(await (await shop.session()).pending(LANE, 10)) == []


async def test_a_table_that_is_gone_ends_the_session(shop: Shop) -> None:
    session = await shop.session()
    await shop.client.call("delete_table", TableName=shop.outbox.table)
    with pytest.raises(SchemaMissing, match="fencepost schema apply"):
        await session.pending(LANE, 10)
    with pytest.raises(ConnectionLost):
        await session.release_due(10)


async def test_a_table_of_somebody_else_is_refused(shop: Shop) -> None:
    """By the relay, by the schema, by the lease store: nothing is written into it."""
    await shop.client.call("delete_table", TableName=shop.outbox.table)
    await shop.client.call("delete_table", TableName=f"{shop.options.prefix}lease")
    for name in ("outbox", "lease"):
        await shop.client.call(
            "create_table",
            TableName=f"{shop.options.prefix}{name}",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
    for call in (shop.source.connect, DynamoSchema(shop.options).apply):
        with pytest.raises(FixError, match="has other keys than pk and sk"):
            await call()
    with pytest.raises(FixError, match="has another key than name"):
        await lease_store(LeaseOptions(url=shop.options.url, prefix=shop.options.prefix)).open()


async def test_a_missing_index_is_told(shop: Shop) -> None:
    """Without it delayed messages would wait for ever."""
    request, _ = creations(shop.outbox.table, "unused")
    del request["GlobalSecondaryIndexes"]
    request["AttributeDefinitions"] = request["AttributeDefinitions"][:2]
    await shop.client.call("delete_table", TableName=shop.outbox.table)
    await shop.client.call("create_table", **request)
    with pytest.raises(FixError, match="has no index 'due'"):
        await shop.source.connect()


async def test_a_table_without_its_number_of_buckets_is_told_and_mended(shop: Shop) -> None:
    """A `fencepost schema print` of which only the first command was run."""
    await replace_table(shop, [])
    with pytest.raises(SchemaMissing, match="does not say how many buckets"):
        await shop.source.connect()
    assert list(await DynamoSchema(shop.options).apply()) == []
    await (await shop.session()).pending(LANE, 10)


async def test_the_number_of_buckets_never_changes(shop: Shop) -> None:
    """Whatever another address says later: messages would be looked for where they are not."""
    other = replace(shop.options, url=shop.options.url.replace("buckets=1", "buckets=4"))
    await DynamoSchema(other).apply()
    ids = await shop.add("a", "b", "c")
    session = await DynamoSource(other).connect()
    assert [m.id for m in await session.pending(LANE, 10)] == ids
    await session.close()


async def test_a_time_to_live_is_warned_about(shop: Shop) -> None:
    assert list(await shop.source.advice()) == []
    ttl = {"Enabled": True, "AttributeName": "due"}
    await shop.client.call("update_time_to_live", TableName=shop.outbox.table, TimeToLiveSpecification=ttl)
    (line,) = await shop.source.advice()
    assert "time to live" in line


async def test_what_is_printed_makes_what_is_applied(shop: Shop) -> None:
    """The commands of Amazon's program have the requests in them."""
    import json
    import shlex

    prefix = f"{shop.options.prefix}printed_"
    schema = DynamoSchema(replace(shop.options, prefix=prefix))
    commands = [shlex.split(statement) for statement in schema.statements()]
    assert [c[:3] for c in commands] == [
        ["aws", "dynamodb", name] for name in ("create-table", "create-table", "wait", "put-item")
    ]
    for command in (commands[0], commands[1], commands[3]):
        request = json.loads(command[command.index("--cli-input-json") + 1])
        await shop.client.call(command[2].replace("-", "_"), **request)
    assert list(await schema.missing()) == []
    assert list(await schema.apply()) == []
    for name in ("outbox", "lease"):
        await shop.client.call("delete_table", TableName=f"{prefix}{name}")


async def test_a_server_that_is_away_is_waited_for(shop: Shop) -> None:
    """D1: nothing listens there."""
    away = replace(shop.options, url="dynamodb://eu-west-1/?endpoint=http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="Could not connect"):
        await DynamoSource(away).connect()


async def test_a_server_that_does_not_answer(shop: Shop) -> None:
    """D5: every call has a deadline of its own, and the session is over."""
    server = urlsplit(address_of(shop.options.url).endpoint or "")
    async with proxy(str(server.hostname), server.port or 0) as between:
        url = f"dynamodb://eu-west-1/?endpoint=http://127.0.0.1:{between.port}"
        session = await DynamoSource(replace(shop.options, url=url, timeout_s=1.0)).connect()
        await session.pending(LANE, 10)
        between.silent = True
        with pytest.raises(DeadlineExceeded, match="did not answer within 1 s"):
            await session.pending(LANE, 10)
        with pytest.raises(ConnectionLost):
            await session.wait(LANE, 0.1)
        between.silent = False
        await session.close()


async def test_connections_that_are_cut_in_between_do_not_end_a_session(shop: Shop) -> None:
    """They mean nothing here: the library makes new ones, and says so only where it cannot."""
    ids = await shop.add("a")
    server = urlsplit(address_of(shop.options.url).endpoint or "")
    async with proxy(str(server.hostname), server.port or 0) as between:
        url = f"dynamodb://eu-west-1/?endpoint=http://127.0.0.1:{between.port}"
        session = await DynamoSource(replace(shop.options, url=url)).connect()
        for _ in range(3):
            assert [m.id for m in await session.pending(LANE, 10)] == ids
            await between.stop()
        await session.close()


async def test_what_two_transactions_want_is_tried_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of these tests has one writer at a time and never says TransactionConflict: it is put into its
    mouth, once, and then for ever.
    """
    await shop.add("a", "b")
    session = await shop.session()
    found = await session.pending(LANE, 10)
    ask, refusals = session._client.ask, [1]

    async def busy(operation: str, **request: Any) -> Any:
        if operation == "transact_write_items" and refusals[0]:
            refusals[0] -= 1
            from botocore.exceptions import ClientError

            codes = [{"Code": "TransactionConflict"}] + [{"Code": "None"}] * (len(request["TransactItems"]) - 1)
            error = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": codes}
            raise ClientError(error, operation)
        return await ask(operation, **request)

    monkeypatch.setattr(session._client, "ask", busy)
    assert await session.settle([(m.position, m.id) for m in found[:1]]) == 1
    refusals[0] = 100
    with pytest.raises(Contention):
        await session.settle([(m.position, m.id) for m in found[1:]])
    refusals[0] = 0
    assert await session.settle([(m.position, m.id) for m in found[1:]]) == 1  # nothing is unknown: it lives


async def test_a_client_that_is_closed_in_a_call_ends_it(dynamodb_url: str) -> None:
    server = urlsplit(address_of(dynamodb_url).endpoint or "")
    async with proxy(str(server.hostname), server.port or 0) as between:
        between.silent = True
        address = address_of(f"dynamodb://eu-west-1/?endpoint=http://127.0.0.1:{between.port}")
        client = Client(address, 30.0, SYSTEM_CLOCK)
        await client.open()
        calling = asyncio.ensure_future(client.call("list_tables"))
        await asyncio.sleep(0.1)
        await client.close()
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(calling, 3.0)
        between.silent = False
