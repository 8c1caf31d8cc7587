"""Faults of the inbox table's database: sessions that end, answers that are lost, files that go, late owners."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pymysql
import pytest

from fencepost.brokers.sql.store import IDLE_S
from fencepost.errors import (
    AccessDenied,
    ConnectionLost,
    Contention,
    DeadlineExceeded,
    Fenced,
    FixError,
    RetryError,
    Unavailable,
)
from fencepost.ports import Lane
from tests.brokers.rows import ids, row, rows, term
from tests.brokers.sql_kit import LANE, Inbox, inbox_of, login
from tests.databases.mariadb_kit import connected
from tests.databases.proxy import Proxy, proxy


@pytest.fixture(params=["postgresql", "mariadb"])
def on_server(request: pytest.FixtureRequest) -> Inbox:
    return inbox_of(request)


# --------------------------------------------------------------------------------------------------- network and server


@contextmanager
def locked_lane(inbox: Inbox) -> Iterator[Callable[[], None]]:
    """Somebody else holds the lane's row, so that a publish waits in its middle. What is given ends that."""
    connection: Any = connected(inbox.url, autocommit=False) if inbox.kind == "mysql" else psycopg.connect(inbox.url)
    try:
        connection.cursor().execute("SELECT lane FROM fencepost_messages_lane FOR UPDATE")
        yield connection.close
    finally:
        with suppress(pymysql.Error):  # it was killed, or is closed
            connection.close()


async def test_a_session_that_the_server_ends_in_mid_publish(on_server: Inbox) -> None:
    """A5, A10: nothing of the batch is there; the same relay takes over again and goes on."""
    async with on_server.opened(timeout_s=10) as one:
        handoff = await one.take_over(LANE, term())
        await handoff.publish([first := row(1)])
        with locked_lane(on_server):
            publishing = asyncio.ensure_future(handoff.publish([row(2)]))
            await on_server.connected(1)
            await asyncio.to_thread(on_server.kill)
            with pytest.raises(RetryError):
                await publishing
        with pytest.raises(ConnectionLost):
            await handoff.publish([row(2)])
        again = await one.take_over(LANE, term(2))
        assert {position for position, _ in again.receipts.named()} == {1}
        await again.publish([second := row(2)])
    assert on_server.ids() == ids([first, second])


async def test_a_server_that_falls_silent_in_mid_publish(on_server: Inbox) -> None:
    """A8: the deadline ends the call, and the next take-over tells whether the batch arrived: it is not sent twice."""
    async with _through_proxy(on_server) as (line, url), on_server.opened(url=url, timeout_s=1.0) as one:
        handoff = await one.take_over(LANE, term())
        batch = rows(3)
        line.silent = True
        started = time.monotonic()
        with pytest.raises(DeadlineExceeded, match="did not answer within 1 s"):
            await handoff.publish(batch)
        assert time.monotonic() - started < 6  # SQLAlchemy takes 2 s to say goodbye
        line.silent = False
        again = await _taken(one)
        if not again.receipts.named():
            await again.publish(batch)
        assert len(again.receipts.named()) == 3
    assert on_server.ids() == ids(batch)


async def test_an_answer_that_is_lost_after_the_commit(on_server: Inbox) -> None:
    """A8: the batch is there although its sender was told nothing."""
    async with _through_proxy(on_server) as (line, url), on_server.opened(url=url, timeout_s=5.0) as one:
        handoff = await one.take_over(LANE, term())
        line.changed = lambda data: b"" if b"\x00" in data and on_server_has(on_server) else data
        batch = rows(3)
        publishing = asyncio.ensure_future(handoff.publish(batch))
        await asyncio.sleep(0)
        done, _ = await asyncio.wait([publishing], timeout=1.5)
        line.changed = bytes
        await handoff.close()
        await asyncio.gather(publishing, return_exceptions=True)
        assert not done, "the answer was to be lost"
        assert on_server.ids() == ids(batch)
        again = await _taken(one)
        assert len(again.receipts.named()) == 3
    assert on_server.ids() == ids(batch)


def on_server_has(inbox: Inbox) -> bool:
    """Whether a batch has been committed."""
    return bool(inbox.ids())


async def _taken(one: Any) -> Any:
    for _ in range(20):
        try:
            return await one.take_over(LANE, term(2))
        except RetryError:
            await asyncio.sleep(0.1)
    raise AssertionError("the lane cannot be taken over")


@asynccontextmanager
async def _through_proxy(inbox: Inbox) -> AsyncIterator[tuple[Proxy, str]]:
    parts = urlsplit(inbox.url)
    async with proxy(parts.hostname or "", parts.port or 0) as line:
        user, _, _ = parts.netloc.rpartition("@")
        yield line, urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{line.port}"))


async def test_a_relay_that_is_paused_in_mid_transaction_keeps_nobody_waiting(on_mariadb: Inbox) -> None:
    """A10: on PostgreSQL the transaction is one statement. Here the server ends it, and nothing of it is there."""
    async with on_mariadb.opened() as one, on_mariadb.opened() as other:
        handoff: Any = await one.take_over(LANE, term())
        line, say = handoff._line, []

        async def stop(wire: Any) -> Any:
            async def paused(command: str) -> None:
                say.append(command)
                await (asyncio.sleep(60) if command == "COMMIT" else original(command))

            original, wire.say = wire.say, paused

        async with line.use(5) as wire:
            await stop(wire)
        late = asyncio.ensure_future(handoff.publish([row(1)]))
        while "COMMIT" not in say:
            await asyncio.sleep(0.01)
        started = time.monotonic()
        again = await other.take_over(LANE, term(2))
        assert time.monotonic() - started < IDLE_S + 3
        assert again.receipts.named() == set()
        await again.publish([message := row(1)])
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
    assert on_mariadb.ids() == [message.id]


async def test_nobody_there_and_a_wrong_password(on_mariadb: Inbox, fresh_database: str) -> None:
    for url in ("postgresql://u:hunter2@127.0.0.1:9/x", "mysql://u:hunter2@127.0.0.1:9/x"):
        with pytest.raises(Unavailable, match="is the server running") as told:
            async with on_mariadb.opened(url=url):
                pass
        assert "hunter2" not in str(told.value)
    wrong, nobody = login(on_mariadb.url, "root:hunter2"), login(fresh_database, "nobody:hunter2")
    for url in (wrong, nobody):
        with pytest.raises(AccessDenied) as denied:
            async with on_mariadb.opened(url=url):
                pass
        assert "hunter2" not in str(denied.value)


async def test_a_server_that_is_closed_for_writers(on_postgresql: Inbox) -> None:
    """A standby, for example: wait until it is promoted."""
    async with on_postgresql.opened() as one:
        handoff = await one.take_over(LANE, term())
        name = urlsplit(on_postgresql.url).path[1:]
        on_postgresql.ask(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        await handoff.close()
        async with on_postgresql.opened() as late:
            with pytest.raises(Unavailable, match="read-only"):
                await late.take_over(LANE, term(2))


async def test_a_commit_is_on_disk_whatever_the_users_setting(on_postgresql: Inbox) -> None:
    name = urlsplit(on_postgresql.url).path[1:]
    on_postgresql.ask(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    async with on_postgresql.opened() as one:
        handoff: Any = await one.take_over(LANE, term())
        async with handoff._line.use(5) as wire:
            assert await wire.driver.fetchval("SHOW synchronous_commit") == "on"


async def test_what_the_server_may_lose_is_told(on_server: Inbox) -> None:
    """`fencepost check` says it. The servers of the tests are set up to be quick, not to keep."""
    question = {
        "postgresql": "SELECT current_setting('fsync') = 'off'",
        "mysql": "SELECT @@innodb_flush_log_at_trx_commit <> 1",
    }[on_server.kind]
    ((careless,),) = on_server.ask(question)
    async with on_server.opened() as one:
        told = await one.advice()  # type: ignore[attr-defined]
    assert [("fsync = off" in line or "trx_commit" in line) and "may be lost" in line for line in told] == (
        [True] if careless else []
    )


# -------------------------------------------------------------------------------------------------------------- SQLite


async def test_a_file_that_is_locked_by_its_consumer(on_sqlite: Inbox) -> None:
    """A consumer that handles messages for long in one transaction: the relay waits, gives up, and goes on later."""
    async with on_sqlite.opened(timeout_s=0.5) as one:
        handoff = await one.take_over(LANE, term())
        consumer = sqlite3.connect(on_sqlite.path, isolation_level=None)
        consumer.execute("BEGIN IMMEDIATE")
        with pytest.raises((Contention, DeadlineExceeded)):
            await handoff.publish([row(1)])
        consumer.execute("COMMIT")
        consumer.close()
        again = await one.take_over(LANE, term(2))
        assert again.receipts.named() == set()
        await again.publish([message := row(1)])
    assert on_sqlite.ids() == [message.id]


async def test_a_publish_that_is_cancelled_leaves_no_lock(on_sqlite: Inbox) -> None:
    """A5: at whatever moment, and although somebody still knows of what it was doing, as a traceback does."""
    known: list[object] = []
    gc.disable()
    try:
        for n in range(12):
            async with on_sqlite.opened() as one, on_sqlite.opened(timeout_s=1.5) as other:
                handoff = await one.take_over(LANE, term(n))
                publishing = asyncio.ensure_future(handoff.publish(rows(90)))
                await asyncio.sleep(n * 0.001)
                publishing.cancel()
                known += await asyncio.gather(publishing, return_exceptions=True)
                await other.take_over(LANE, term(100 + n))
    finally:
        gc.enable()
    assert any(isinstance(each, asyncio.CancelledError) for each in known)


async def test_a_file_that_is_removed_under_the_relay(on_sqlite: Inbox) -> None:
    """What is written to a file that nobody will ever read has not been published."""
    async with on_sqlite.opened() as one:
        handoff = await one.take_over(LANE, term())
        await handoff.publish([row(1)])
        on_sqlite.path.unlink()
        with pytest.raises(ConnectionLost, match="the file was removed"):
            await handoff.publish([row(2)])
        again = await one.take_over(LANE, term(2))
        assert again.receipts.named() == set()
        await again.publish([message := row(2)])
    assert on_sqlite.ids() == [message.id]


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FixError, match="there is no folder"):
        async with Inbox(f"sqlite:///{tmp_path}/nowhere/inbox.db").opened():
            pass


# ----------------------------------------------------------------------------------------------------------- the fence


async def test_an_owner_that_waits_for_the_lane_while_it_is_taken_over_is_refused(on_server: Inbox) -> None:
    """A10: the late batch is refused by the database although it was sent before the take-over had ended."""
    async with on_server.handoff(1) as old:
        with locked_lane(on_server) as unlock:
            taking = asyncio.ensure_future(_take(on_server))
            await on_server.connected(1)
            late = asyncio.ensure_future(old.publish([row(1)]))
            await on_server.connected(2)
            unlock()
            results = await asyncio.gather(late, return_exceptions=True)
            fence = await taking
        # Whoever had the row first: the batch is there and its receipt is known, or it is not and was refused.
        if isinstance(results[0], Fenced):
            assert (on_server.ids(), fence) == ([], 0)
        else:
            assert (len(on_server.ids()), fence) == (1, 1)


async def _take(inbox: Inbox) -> int:
    async with inbox.handoff(2) as new:
        return len(new.receipts.named())


async def test_owners_that_take_a_lane_for_the_first_time_at_once(on_server: Inbox) -> None:
    """A1: nobody's row is there yet; each of them gets a fence of its own, and the highest one publishes."""
    async with on_server.opened() as a, on_server.opened() as b, on_server.opened() as c:
        for turn in range(20):
            lane = Lane(f"orders-{turn}")
            handoffs = await asyncio.gather(*[one.take_over(lane, term(1, f"{turn}")) for one in (a, b, c)])
            outcomes = await asyncio.gather(*[each.publish([row(1)]) for each in handoffs], return_exceptions=True)
            fenced = [each for each in outcomes if isinstance(each, Fenced)]
            assert len(fenced) == 2, outcomes
            assert len(on_server.ids()) == turn + 1
