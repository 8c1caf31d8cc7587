"""Reading from DynamoDB: a query is no snapshot, buckets are read at different moments, and order per key holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fencepost.databases.dynamodb.chain import Chain
from fencepost.databases.dynamodb.reading import Item
from fencepost.databases.dynamodb.schema import DynamoSchema
from fencepost.databases.dynamodb.session import DynamoSession
from fencepost.databases.dynamodb.source import DynamoSource
from fencepost.message import Stored
from fencepost.ports import Lane
from tests.dynamodb_outbox.shop import LANE, Shop

PAGE = 8


def between_pages(session: DynamoSession, happens: Callable[[], Awaitable[Any]]) -> None:
    """Let the next query of the session end in the middle; then something happens before the rest is read."""
    call, waiting = session._client.call, [happens]

    async def torn(operation: str, **request: Any) -> Any:
        if operation != "query" or not waiting:
            return await call(operation, **request)
        answer = await call(operation, **{**request, "Limit": PAGE + PAGE // 2})
        await waiting.pop()()
        return answer

    session._client.call = torn  # type: ignore[method-assign]


async def torn_read(shop: Shop) -> tuple[DynamoSession, list[str], list[Stored]]:
    """A read during which two messages of one key commit, the first below the place where the read is by then.

    The session, their ids, and what the read gave.
    """
    await shop.add(*[None] * PAGE)
    early = shop.begin()
    first = await early.add("orders", 1, key="a")
    await shop.add(*[None] * PAGE)
    session, ids = await shop.session(), [first.id]

    async def commit_both() -> None:
        await shop.commit(early)
        ids.extend(await shop.add("a"))

    between_pages(session, commit_both)
    return session, ids, list(await session.pending(LANE, 100))


async def test_no_message_goes_before_an_earlier_one_of_its_key(shop: Shop) -> None:
    """B5: what one transaction committed while the query ran, behind it and before it."""
    session, ids, read = await torn_read(shop)
    assert [m.id for m in read if m.key == "a"] == []
    assert len(read) == 2 * PAGE
    assert [m.id for m in await session.pending(LANE, 100) if m.key == "a"] == ids


async def test_without_the_chain_the_read_is_torn(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above tests something."""

    async def as_it_is(self: Chain, items: list[Item], after: str | None) -> list[Item]:
        return items

    monkeypatch.setattr(Chain, "whole", as_it_is)
    _, ids, read = await torn_read(shop)
    assert [m.id for m in read if m.key == "a"] == ids[1:]


async def test_a_new_session_goes_on_with_keys_whose_last_message_is_long_gone(shop: Shop) -> None:
    await shop.add("a", "b")
    session = await shop.session()
    await session.settle([(m.position, m.id) for m in await session.pending(LANE, 10)])
    ids = await shop.add("b", "a", "c")
    assert [m.id for m in await (await shop.session()).pending(LANE, 10)] == ids


async def test_after_a_position_the_messages_below_it_are_not_asked_for(shop: Shop) -> None:
    """Whoever reads above a position knows what stands below it, or asks."""
    ids = await shop.add("a", "a", "a")
    first = (await (await shop.session()).pending(LANE, 10))[0]
    assert [m.id for m in await (await shop.session()).pending(LANE, 10, first.position)] == ids[1:]


class _Busy:
    """A client to whom the service says that a transaction is at work at one position.

    The server of these tests never says so: it has one writer at a time.
    """

    place = "here"

    def __init__(self, position: str) -> None:
        self._position = position

    async def ask(self, operation: str, *, TransactItems: list[dict[str, Any]]) -> Any:  # noqa: N803
        assert operation == "transact_get_items"
        keys = [item["Get"]["Key"]["sk"]["S"] for item in TransactItems]
        if self._position in keys:
            codes = [{"Code": "TransactionConflict" if key == self._position else "None"} for key in keys]
            error = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": codes}
            raise ClientError(error, "TransactGetItems")
        return {"Responses": [{} for _ in keys]}


async def test_a_message_waits_for_a_transaction_that_is_not_applied_everywhere_yet() -> None:
    """B5: committed, seen in part: the earlier message of the key is not there yet, and the service says why."""
    positions = [f"{n:014x}00{0:08x}" for n in range(1, 8)]
    before = dict(zip(positions[1:], positions, strict=False))
    chain = Chain(_Busy(positions[0]), "table", 1)  # type: ignore[arg-type]

    def item(position: str) -> Item:
        return {"sk": {"S": position}, "previous": {"S": before[position]}}

    shown = [item(positions[n]) for n in (1, 2, 4, 6)]  # of the first two, one after the other; and two others
    assert [i["sk"]["S"] for i in await chain.whole(shown, None)] == [positions[4], positions[6]]


async def test_every_position_is_remembered_only_for_a_while(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """D7: a session that lives for months does not grow."""
    monkeypatch.setattr("fencepost.databases.dynamodb.chain.KNOWN_MAX", 10)
    ids = await shop.add(*"abcabcabcabcabcabc")
    session = await shop.session()
    for _ in range(3):
        assert [m.id for m in await session.pending(LANE, 100)] == ids
    assert len(session._chain._known) == 10


@pytest.mark.parametrize("buckets", [2, 16])
async def test_buckets_are_read_as_one_outbox(shop: Shop, buckets: int) -> None:
    """Whatever the limit, and in lanes that cut through buckets."""
    url = shop.options.url.replace("buckets=1", f"buckets={buckets}")
    options = replace(shop.options, url=url, prefix=f"{shop.options.prefix}{buckets}_")
    other = Shop(options, shop.client, DynamoSource(options), type(shop.outbox)(prefix=options.prefix))
    await DynamoSchema(options).apply()
    try:
        ids = [i for _ in range(3) for i in await other.add(*[f"key-{n}" for n in range(40)])]
        session = await other.session()
        for limit in (1, 7, 119, 120, 121):
            assert [m.id for m in await session.pending(LANE, limit)] == ids[:limit]
        lanes = [Lane("orders", n, n * 64 + 10, n * 64 + 73) for n in range(3)] + [Lane("orders", 3, 0, 9)]
        lanes.append(Lane("orders", 4, 202, 255))
        found = [m for lane in lanes for m in await session.pending(lane, 1_000)]
        assert sorted(m.id for m in found) == sorted(ids)
        assert len({item["pk"]["S"] for item in await other.everything() if "topic" in item}) > 1
    finally:
        await other.close()
        for name in ("outbox", "lease"):
            await shop.client.call("delete_table", TableName=f"{options.prefix}{name}")
