"""What a session does when the server, the network or its own rights fail it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from fencepost.databases import postgresql as plugin
from fencepost.databases.postgresql import PostgresqlSession
from fencepost.errors import (
    AccessDenied,
    ConnectionLost,
    DeadlineExceeded,
    FixError,
    SchemaMissing,
    Unavailable,
)
from fencepost.ports import DatabaseOptions
from tests.databases.places import LANE, Connect, PostgresqlPlace, pairs, row
from tests.databases.proxy import Proxy, proxy


def through(place: PostgresqlPlace, made: Proxy, timeout_s: float) -> PostgresqlPlace:
    """The same outbox behind a proxy."""
    parts = urlsplit(place.options.url)
    netloc = f"{parts.username}@127.0.0.1:{made.port}"
    url = urlunsplit(parts._replace(netloc=netloc))
    return PostgresqlPlace(replace(place.options, url=url, timeout_s=timeout_s))


def server_of(place: PostgresqlPlace) -> tuple[str, int]:
    parts = urlsplit(place.options.url)
    return str(parts.hostname), parts.port or 5432


async def in_time(call: Awaitable[Any], limit_s: float) -> float:
    """How long the call took to fail with DeadlineExceeded."""
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        await asyncio.wait_for(call, limit_s)
    return time.monotonic() - began


@pytest.mark.parametrize("which", ["_reader", "_writer"])
async def test_a_terminated_connection_ends_the_session(
    postgresql: PostgresqlPlace, which: str, connect: Connect
) -> None:
    """D5: either of the two; whatever is called next says so, and a new session works."""
    added = postgresql.add(row())
    session = await connect(postgresql)
    assert pairs(await session.pending(LANE, 10)) == added
    pid = getattr(session, which).connection.get_server_pid()
    waiting = asyncio.ensure_future(_wait_for_ever(session))
    postgresql.ask("SELECT pg_terminate_backend(%s)", pid)
    with pytest.raises(ConnectionLost):
        await asyncio.wait_for(waiting, 5)
    for call in (session.pending(LANE, 1), session.settle(added), session.reserve(1), session.held([(1, 2)])):
        with pytest.raises(ConnectionLost):
            await call
    await session.close()
    again = await connect(postgresql)
    assert await again.settle(added) == 1
    await again.close()


async def _wait_for_ever(session: PostgresqlSession) -> None:
    while True:
        await session.wait(LANE, 30)


async def test_a_connection_that_is_cut_in_a_call_loses_it(postgresql: PostgresqlPlace, connect: Connect) -> None:
    added = postgresql.add(row())
    blocker = psycopg.connect(postgresql.options.url)
    blocker.execute(f"SELECT * FROM {postgresql.outbox} FOR UPDATE".encode())
    session = await connect(postgresql)
    settling = asyncio.ensure_future(session.settle(added))
    await asyncio.sleep(0.2)
    postgresql.ask("SELECT pg_terminate_backend(%s)", session._writer.connection.get_server_pid())
    with pytest.raises(ConnectionLost):
        await asyncio.wait_for(settling, 5)
    with pytest.raises(ConnectionLost):
        await session.pending(LANE, 1)
    blocker.close()
    await session.close()


async def test_no_statement_lives_longer_than_its_deadline(postgresql: PostgresqlPlace, connect: Connect) -> None:
    """Neither here nor in the server: a settle that was given up must not happen later."""
    added = postgresql.add(row())
    blocker = psycopg.connect(postgresql.options.url)
    blocker.execute(f"SELECT * FROM {postgresql.outbox} FOR UPDATE".encode())
    session = await connect(PostgresqlPlace(replace(postgresql.options, timeout_s=0.5)))
    assert await in_time(session.settle(added), 5) >= 0.4
    blocker.close()
    with pytest.raises(ConnectionLost):
        await session.settle(added)
    await session.close()
    await asyncio.sleep(0.3)
    assert postgresql.ask(f"SELECT count(*) FROM {postgresql.outbox}") == [(1,)]


async def test_a_server_that_accepts_and_never_answers_is_given_up(postgresql_url: str) -> None:
    """D4."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options = DatabaseOptions(url=f"postgresql://postgres@127.0.0.1:{port}/postgres", timeout_s=0.3)
    for call in (
        plugin.source(options).connect(),
        plugin.source(options).backlog(),
        plugin.schema(options).apply(),
        plugin.schema(options).missing(),
    ):
        assert 0.25 < await in_time(call, 5) < 3
    server.close()
    await server.wait_closed()


async def test_a_network_that_falls_silent_ends_the_session_in_time(
    postgresql: PostgresqlPlace, connect: Connect
) -> None:
    """D4, D5: half-open; also the request to cancel goes nowhere."""
    added = postgresql.add(row())
    async with proxy(*server_of(postgresql)) as network:
        place = through(postgresql, network, timeout_s=2.0)
        session = await connect(place)
        assert pairs(await session.pending(LANE, 10)) == added
        network.silent = True
        assert await in_time(session.pending(LANE, 10), 6) < 5
        with pytest.raises(ConnectionLost):
            await session.settle(added)
        await asyncio.wait_for(session.close(), 2)
        assert await in_time(place.source.connect(), 6) < 5
        network.silent = False
        again = await connect(place)
        assert pairs(await again.pending(LANE, 10)) == added
        await again.close()


async def test_to_close_a_session_in_a_silent_network_does_not_hang(
    postgresql: PostgresqlPlace, connect: Connect
) -> None:
    async with proxy(*server_of(postgresql)) as network:
        session = await connect(through(postgresql, network, timeout_s=10))
        for _ in range(8):
            await session.wait(LANE, 0.1)
        network.silent = True
        await asyncio.wait_for(session.close(), 3)


async def test_an_altered_table_does_not_stop_the_relay(postgresql: PostgresqlPlace, connect: Connect) -> None:
    added = postgresql.add(row(key="a"), row(key="b"))
    session = await connect(postgresql)
    assert len(await session.pending(LANE, 10)) == 2
    postgresql.ask(f"ALTER TABLE {postgresql.outbox} ALTER COLUMN topic TYPE text, ADD COLUMN mine integer")
    assert pairs(await session.pending(LANE, 10)) == added
    assert await session.settle(added) == 2
    await session.close()


async def test_a_value_that_python_cannot_hold_is_to_be_fixed(postgresql: PostgresqlPlace, connect: Connect) -> None:
    added = postgresql.add(row())
    session = await connect(postgresql)
    postgresql.ask(f"UPDATE {postgresql.outbox} SET occurred_at = 'infinity'")
    with pytest.raises(FixError, match="infinity"):
        await session.pending(LANE, 10)
    assert await session.settle(added) == 1
    await session.close()


async def test_two_relays_that_settle_the_same_rows_both_come_to_an_end(
    postgresql: PostgresqlPlace, connect: Connect
) -> None:
    added = postgresql.add(*(row(key=f"k{i}") for i in range(500)))
    one, two = await connect(postgresql), await connect(postgresql)
    assert sum(await asyncio.gather(one.settle(added), two.settle(added))) == 500
    await one.close()
    await two.close()


async def test_two_sessions_reserve_while_others_draw(postgresql: PostgresqlPlace, connect: Connect) -> None:
    """A position is never taken back: the next one is above everything that anybody drew meanwhile."""
    one, two = await connect(postgresql), await connect(postgresql)
    reserving = [s.reserve(position) for position in (100, 2_000, 500, 1_000) for s in (one, two)]
    added, *_ = await asyncio.gather(asyncio.to_thread(postgresql.add, *(row() for _ in range(300))), *reserving)
    drawn = [position for position, _ in added]
    assert len(set(drawn)) == 300
    assert drawn == sorted(drawn)
    assert postgresql.add(row())[0][0] > max(2_000, *drawn)
    await one.close()
    await two.close()


# ------------------------------------------------------------------------------------------------------ what is missing


async def test_missing_tables_are_named_with_the_remedy(postgresql: PostgresqlPlace) -> None:
    other = postgresql.other(prefix=f"{postgresql.options.prefix}none_")
    with pytest.raises(SchemaMissing, match=r"none_outbox.*fencepost schema apply"):
        await other.source.connect()
    with pytest.raises(SchemaMissing):
        await other.source.backlog()
    postgresql.ask(f"DROP TABLE {postgresql.options.prefix}parked")
    with pytest.raises(SchemaMissing, match=r"has no table [a-z0-9_]+parked:"):
        await postgresql.source.connect()
    assert await postgresql.schema.apply() == [f"{postgresql.options.prefix}parked"]


async def test_a_missing_right_is_named_with_the_remedy(
    postgresql: PostgresqlPlace, fresh_name: str, connect: Connect
) -> None:
    user = f"user_{fresh_name.replace('-', '_')}"
    parts = urlsplit(postgresql.options.url)
    url = urlunsplit(parts._replace(netloc=f"{user}@{parts.hostname}:{parts.port}"))
    theirs = PostgresqlPlace(replace(postgresql.options, url=url))
    outbox, parked, lane = (f"{postgresql.options.prefix}{name}" for name in ("outbox", "parked", "lane"))
    with pytest.raises(AccessDenied, match=user):
        await theirs.source.connect()
    postgresql.ask(f"CREATE USER {user}")
    try:
        granted = (
            f"GRANT SELECT, UPDATE, DELETE ON {outbox} TO ...; GRANT SELECT, INSERT, UPDATE ON {parked}, {lane} TO"
        )
        with pytest.raises(AccessDenied, match=re.escape(granted)):
            await theirs.source.connect()
        postgresql.ask(f"GRANT SELECT, UPDATE, DELETE ON {outbox} TO {user}")
        postgresql.ask(f"GRANT SELECT, INSERT, UPDATE ON {parked}, {lane} TO {user}")
        with pytest.raises(AccessDenied, match=f"GRANT USAGE ON SEQUENCE public.{outbox}_seq_seq"):
            await theirs.source.connect()
        postgresql.ask(f"GRANT USAGE ON SEQUENCE {outbox}_seq_seq TO {user}")
        await _do_everything(postgresql, await connect(theirs))
    finally:
        postgresql.ask(f"DROP OWNED BY {user}")
        postgresql.ask(f"DROP USER {user}")


async def _do_everything(place: PostgresqlPlace, session: PostgresqlSession) -> None:
    """With exactly the rights that connect() asks for, nothing is refused later."""
    place.add(row(key="a"), row(key="b"))
    first, second = await session.pending(LANE, 10)
    await session.in_doubt([first], 1)
    await session.failed([(first, "no")])
    await session.park([(first, "no")])
    assert await session.settle(pairs([second])) == 1
    assert await session.held([(1, 10)]) == []
    assert await session.release_due(10) is None
    assert await session.reserve(50)
    for _ in range(8):
        await session.wait(LANE, 0.01)
    await session.close()


async def test_an_unknown_database_or_server_is_told_apart(postgresql: PostgresqlPlace) -> None:
    parts = urlsplit(postgresql.options.url)
    nowhere = replace(postgresql.options, url=urlunsplit(parts._replace(path="/there-is-no-such-database")))
    with pytest.raises(FixError, match="there-is-no-such-database"):
        await plugin.source(nowhere).connect()
    nobody = replace(postgresql.options, url="postgresql://postgres@127.0.0.1:1/postgres")
    with pytest.raises(Unavailable):
        await plugin.source(nobody).connect()


async def test_the_time_zone_of_the_server_does_not_matter(fresh_database: str, connect: Connect) -> None:
    """B9: for every connection of the database, the writers' too."""
    place = PostgresqlPlace(DatabaseOptions(url=fresh_database))
    name = urlsplit(fresh_database).path[1:]
    place.ask(f"ALTER DATABASE \"{name}\" SET timezone = 'Asia/Tokyo'")
    place.ask(f"ALTER DATABASE \"{name}\" SET datestyle = 'German, DMY'")
    await place.schema.apply()
    given = row()
    place.add(given, row(state=2, available_at=given["occurred_at"]))
    session = await connect(place)
    (message,) = await session.pending(LANE, 10)
    assert message.occurred_at == given["occurred_at"]
    assert message.occurred_at.utcoffset() == given["occurred_at"].utcoffset()
    assert await session.release_due(10) is None
    assert len(await session.pending(LANE, 10)) == 2
    await session.close()
