"""The form with a collection of its own: what an application sees of it, and what a relay's session does in trouble."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from pymongo import AsyncMongoClient, MongoClient, monitoring
from pymongo.errors import OperationFailure

from fencepost.databases.mongodb import AsyncMongoOutbox, MongoOutbox
from fencepost.databases.mongodb.positions import time_of
from fencepost.errors import (
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    MessageRefused,
    NoTransaction,
    SchemaMissing,
    VersionConflict,
)
from fencepost.newmessage import NewMessage
from tests.databases.proxy import proxy
from tests.mongodb.places import LANE, Place, Shifted, collection_place


def outbox_of(place: Place, shift_s: float = 0.0) -> MongoOutbox:
    return MongoOutbox(place.address.database, prefix=place.options.prefix, clock=Shifted(shift_s))


# --- the application


async def test_messages_share_the_fate_of_the_transaction(place: Place) -> None:
    outbox, orders = outbox_of(place), place.database[f"{place.options.prefix}orders"]
    with place.client.start_session() as session:
        with session.start_transaction():
            orders.insert_one({"_id": 1}, session=session)
            added = outbox.add_all(
                session, [NewMessage("orders", {}, "1"), NewMessage("orders", {}), NewMessage("orders", {}, "1")]
            )
        session.start_transaction()
        outbox.add(session, "orders", {}, key="1")
        session.abort_transaction()
    assert [m.version for m in added] == [1, None, 2]
    found = await (await place.session()).pending(LANE, 10)
    assert [m.id for m in found] == [m.id for m in added]
    orders.drop()


async def test_an_awaited_session_adds_the_same(place: Place) -> None:
    outbox = AsyncMongoOutbox(prefix=place.options.prefix)
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(place.address.uri)
    async with client, client.start_session() as session:

        async def work(session: Any) -> None:
            await outbox.add(session, "orders", b"1", key="1", version=7)

        await session.with_transaction(work)
        with pytest.raises(NoTransaction, match="no transaction open"):
            await outbox.add(session, "orders", b"2")
    (found,) = await (await place.session()).pending(LANE, 10)
    assert (found.payload, found.version) == (b"1", 7)


def test_what_has_no_transaction_is_refused(place: Place) -> None:
    outbox = outbox_of(place)
    with place.client.start_session() as session:
        with pytest.raises(NoTransaction, match=r"with_transaction"):
            outbox.add(session, "orders", {})
        with session.start_transaction():
            pass
        with pytest.raises(NoTransaction):
            outbox.add(session, "orders", {})
        with session.start_transaction(), pytest.raises(MessageRefused):
            outbox.add(session, "no such topic", {})
    with pytest.raises(ConfigurationError, match=r"cannot use pymongo\.synchronous\.mongo_client\.MongoClient"):
        outbox.add(place.client, "orders", {})  # type: ignore[arg-type]
    nameless: MongoClient[dict[str, Any]] = MongoClient(f"mongodb://{urlsplit(place.address.uri).netloc}")
    with nameless, nameless.start_session() as session:
        session.start_transaction()
        with pytest.raises(ConfigurationError, match="names no database"):
            MongoOutbox().add(session, "orders", {})
        session.abort_transaction()


async def test_a_version_that_is_not_newer_is_refused(place: Place) -> None:
    outbox = outbox_of(place)
    with place.client.start_session() as session:
        with session.start_transaction():
            outbox.add(session, "orders", {}, key="1", version=5)
        for version in (4, 5):
            session.start_transaction()
            with pytest.raises(VersionConflict, match=f"version {version} of '1'"):
                outbox.add(session, "orders", {}, key="1", version=version)
            session.abort_transaction()
        with session.start_transaction():
            assert outbox.add(session, "orders", {}, key="1").version == 6
    assert [m.version for m in await (await place.session()).pending(LANE, 10)] == [5, 6]


async def test_two_transactions_of_one_entity_conflict_and_the_driver_repeats_the_later_one(place: Place) -> None:
    """B2: nobody waits; whoever comes second is told to begin anew, also where both make the entity."""
    outbox = outbox_of(place)
    with place.client.start_session() as first, place.client.start_session() as second:
        first.start_transaction()
        second.start_transaction()
        outbox.add(first, "orders", {}, key="new")
        with pytest.raises(OperationFailure) as conflict:
            outbox.add(second, "orders", {}, key="new")
        assert conflict.value.has_error_label("TransientTransactionError")
        first.commit_transaction()
        second.abort_transaction()


async def test_positions_of_a_key_grow_with_its_versions_whatever_the_clocks_say(place: Place) -> None:
    """B1, B4: three machines, of which one is a minute late and one a minute early, add to the same entity at once."""

    def write(shift_s: float) -> None:
        outbox = outbox_of(place, shift_s)
        with place.client.start_session() as session:
            for _ in range(3):
                session.with_transaction(lambda s: outbox.add(s, "orders", {}, key="1"))

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, (0.0, -60.0, 60.0)))
    found = await (await place.session()).pending(LANE, 20)
    assert [m.version for m in found] == list(range(1, 10))
    times = [time_of(m.position) for m in found]
    assert times == sorted(set(times))


# --- the relay


async def test_the_pages_go_through_an_index_without_a_sort(place: Place) -> None:
    outbox = place.database[f"{place.options.prefix}outbox"]
    for slots in ({}, {"slot": {"$gte": 0, "$lte": 127}}):
        cursor = (
            outbox.find({"state": 0, "_id": {"$gt": ""}, **slots}, hint="pending")
            .sort([("state", 1), ("_id", 1)])
            .limit(10)
        )
        plan = str(cursor.explain()["queryPlanner"]["winningPlan"])
        assert "'indexName': 'pending'" in plan
        # SecantusDB sorts whatever the index is, where that has several fields.
        assert ("'stage': 'SORT'" in plan) == (place.client.admin.command("serverStatus")["process"] == "secantus")
    plan = str(outbox.find({"available_us": {"$lte": 1}}).sort("available_us", 1).explain()["queryPlanner"])
    assert "'indexName': 'due'" in plan


class Told(monitoring.CommandListener):
    """Every command that is sent."""

    def __init__(self) -> None:
        self.commands: list[Mapping[str, Any]] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.commands.append(event.command)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...

    def of(self, name: str) -> list[Mapping[str, Any]]:
        return [command for command in self.commands if name in command]


async def test_pages_are_read_at_one_moment_and_settles_are_kept_by_a_majority(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1: without that a page could show a message without the earlier one of its key."""
    told = Told()
    listeners = monitoring._Listeners([told], [], [], [], [])
    monkeypatch.setattr(monitoring, "_LISTENERS", listeners)
    session = await place.session()
    monkeypatch.undo()
    with place.client.start_session() as other, other.start_transaction():
        outbox_of(place).add(other, "orders", {})
    told.commands.clear()
    (m,) = await session.pending(LANE, 10)
    await session.below(LANE, m.position, 10)
    assert [command["readConcern"]["level"] for command in told.of("find")] == ["snapshot", "snapshot"]
    await session.settle([(m.position, m.id)])
    (settled,) = told.of("delete")
    assert (settled["writeConcern"]["w"], settled["writeConcern"]["j"]) == ("majority", True)


async def test_a_relay_that_found_nothing_is_woken_by_a_stream(place: Place) -> None:
    session: Any = await place.session()
    for _ in range(8):
        await session.pending(LANE, 10)
        await session.wait(LANE, 0.01)
    assert session._waking._hears
    await session.pending(LANE, 10)
    waiting = asyncio.ensure_future(session.wait(LANE, 30.0))
    with place.client.start_session() as other, other.start_transaction():
        outbox_of(place).add(other, "orders", {})
    await asyncio.wait_for(waiting, 10.0)
    assert len(await session.pending(LANE, 10)) == 1


async def test_a_wait_ends_though_the_driver_has_swallowed_the_cancellation(place: Place) -> None:
    session: Any = await place.session()

    async def looks() -> None:
        with suppress(asyncio.CancelledError):  # as a call of the driver's may do
            await asyncio.sleep(30)
        await session.wait(LANE, 30.0)

    looking = asyncio.ensure_future(looks())
    await asyncio.sleep(0)
    looking.cancel()
    await asyncio.wait({looking}, timeout=10)
    assert looking.cancelled()


async def test_a_standalone_server_is_refused_with_the_way_out(mongo_java_server_url: str, fresh_name: str) -> None:
    place = collection_place(mongo_java_server_url, fresh_name)
    for call in (place.schema.missing, place.schema.apply, place.source.connect):
        with pytest.raises(ConfigurationError, match=r"standalone.*rs\.initiate.*mongodb-embedded://"):
            await call()


async def test_a_missing_index_is_named_and_made(place: Place) -> None:
    name = f"{place.options.prefix}outbox"
    place.database[name].drop_index("due")
    with pytest.raises(SchemaMissing, match=f"has no {name}.due: run `fencepost schema apply`"):
        await place.source.connect()
    assert await place.schema.missing() == [f"{name}.due"]
    assert await place.schema.apply() == [f"{name}.due"]
    await place.session()


async def test_a_collation_is_refused(place: Place) -> None:
    name = f"{place.options.prefix}entity"
    place.database[name].drop()
    place.database.create_collection(name, collation={"locale": "en", "strength": 2})
    with pytest.raises(ConfigurationError, match=f"{name} compares texts by the rules of a language"):
        await place.source.connect()


NOBODY = """
import asyncio
from fencepost.databases import mongodb
from fencepost.errors import Unavailable
from fencepost.ports import DatabaseOptions

async def main():
    options = DatabaseOptions(url="mongodb://app:secret@127.0.0.1:1/test", timeout_s=2.0)
    source = mongodb.source(options)
    for call in (source.connect, source.backlog, mongodb.schema(options).missing):
        try:
            await call()
        except Unavailable as error:
            print(type(error).__name__, error)

asyncio.run(main())
"""


def test_nobody_answers_at_this_address() -> None:
    """In a process of its own: the driver leaves sockets behind whose connection is refused."""
    done = subprocess.run([sys.executable, "-c", NOBODY], capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.startswith("Unavailable MongoDB 127.0.0.1:1/test: ")
        assert "is a primary up" in line
        assert "secret" not in line


async def test_a_cut_connection_ends_the_session_for_good(place: Place) -> None:
    """D5: the driver would connect anew, and nobody would know."""
    host, port = place.client.address or ("", 0)
    async with proxy(host, port) as network:
        url = f"mongodb://127.0.0.1:{network.port}/{place.address.database}?directConnection=true"
        behind = place.beside(url=url)
        session = await behind.session()
        assert await session.pending(LANE, 10) == []
        waiting = asyncio.ensure_future(session.wait(LANE, 60.0))
        for writer in list(network._writers):
            writer.close()
        with pytest.raises(ConnectionLost):
            await _until_lost(waiting, session)
        for call in (lambda: session.pending(LANE, 10), lambda: session.reserve("x"), lambda: session.wait(LANE, 0.1)):
            with pytest.raises(ConnectionLost):
                await call()
        assert await (await behind.session()).pending(LANE, 10) == []
        for each in behind.sessions:
            await each.close()


async def _until_lost(waiting: asyncio.Future[None], session: Any) -> None:
    async with asyncio.timeout(10.0):
        await waiting
        while True:
            await session.wait(LANE, 0.05)


async def test_a_silent_server_is_not_waited_for(place: Place) -> None:
    """F2: it takes the question and never answers."""
    host, port = place.client.address or ("", 0)
    async with proxy(host, port) as network:
        url = f"mongodb://127.0.0.1:{network.port}/{place.address.database}?directConnection=true"
        behind = place.beside(url=url, timeout_s=4.0)
        session = await behind.session()
        network.silent = True
        with pytest.raises((DeadlineExceeded, ConnectionLost)):
            await asyncio.wait_for(session.pending(LANE, 10), 10.0)
        with pytest.raises(ConnectionLost):
            await session.held([("a", "b")])
        await asyncio.wait_for(session.close(), 5.0)
        network.silent = False
