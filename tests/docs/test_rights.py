"""The rights that the documentation grants are enough for everything that an application and a relay do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from fencepost import NewMessage, Outbox, app, config
from fencepost.brokers.nats import broker
from fencepost.events import Event, Published
from fencepost.ports import BrokerOptions, Delivery, Lane, ParkedFilter, Term
from fencepost.sql.outbox import Versions
from tests.brokers.nats_kit import OwnNats
from tests.brokers.rows import row, rows
from tests.databases.mariadb_kit import ask, connected, mariadb_database
from tests.docs.pages import TREE, the_block

DOCS = TREE / "docs"


@pytest.fixture
def roles(fresh_database: str, fresh_name: str) -> Iterator[tuple[str, str]]:
    """The addresses of the application and of the relay: two users with the rights that the page grants."""
    settings = config.load(None, {**variables(fresh_database)})
    asyncio.run(app.schema(settings).apply())
    users = [f"{fresh_name}-app", f"{fresh_name}-relay"]
    grants = "".join(the_block(DOCS / "postgresql.md", "sql", word).text for word in ("rights", "parked-rights"))
    grants = grants.replace("shop_app", f'"{users[0]}"').replace("shop_relay", f'"{users[1]}"')
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        for user in users:
            connection.execute(f'CREATE ROLE "{user}" LOGIN'.encode())
        try:
            connection.execute(grants.encode())
            yield of_user(fresh_database, users[0]), of_user(fresh_database, users[1])
        finally:
            for user in users:
                connection.execute(f'DROP OWNED BY "{user}"; DROP ROLE "{user}"'.encode())


def of_user(url: str, user: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.hostname}:{parts.port}"))


def variables(database: str) -> dict[str, str]:
    return {
        "FENCEPOST_RELAY__NAME": "rights",
        "FENCEPOST_DATABASE__URL": database,
        "FENCEPOST_BROKER__URL": "memory://rights",
    }


@pytest.fixture
def mariadb_roles(mariadb_url: str, fresh_name: str) -> Iterator[tuple[str, str]]:
    """The same of MariaDB."""
    with mariadb_database(mariadb_url, fresh_name) as url:
        asyncio.run(app.schema(config.load(None, variables(url))).apply())
        users = [f"{fresh_name}-app", f"{fresh_name}-relay"]
        words = ("mariadb-rights", "mariadb-parked-rights")
        grants = "".join(the_block(DOCS / "mariadb.md", "sql", word).text for word in words)
        grants = re.sub("^--.*$", "", grants, flags=re.MULTILINE)
        for user, name in zip(users, ("shop_app", "shop_relay"), strict=True):
            ask(url, f"CREATE USER '{user}'@'%'")
            grants = grants.replace(name, f"'{user}'@'%'")
        try:
            for grant in filter(str.strip, grants.split(";")):
                ask(url, grant)
            yield of_user(url, users[0]), of_user(url, users[1])
        finally:
            for user in users:
                ask(url, f"DROP USER '{user}'@'%'")


def test_rights_in_mariadb(mariadb_roles: tuple[str, str]) -> None:
    application, relay = mariadb_roles
    outbox = Outbox()
    with closing(connected(application, autocommit=False)) as connection:
        outbox.add(connection, "orders", 1, key="a")
        outbox.add(connection, "orders", 3, key="b", version=7)
        outbox.add_all(connection, [NewMessage("orders", 4, key="a"), NewMessage("orders", 5)])
        connection.commit()
    connections = asyncio.run(publish_all(config.load(None, variables(relay)), 4, application))
    assert connections == 3, "a relay that leads has three connections, the page says"
    with closing(connected(application, autocommit=False)) as connection:
        outbox.add_all(connection, [NewMessage("orders", 6, key="a"), NewMessage("orders", 7, key="a")])
        connection.commit()
    asyncio.run(operate(config.load(None, variables(relay))))


@pytest.mark.parametrize("versions", ["counter", "position"])
def test_rights_in_postgresql(roles: tuple[str, str], versions: Versions) -> None:
    application, relay = roles
    outbox = Outbox(versions=versions)
    with psycopg.connect(application) as connection:
        outbox.add(connection, "orders", 1, key="a")
        outbox.add(connection, "orders", 2)
        outbox.add(connection, "orders", 3, key="b", version=7)
        outbox.add_all(connection, [NewMessage("orders", 4, key="a"), NewMessage("orders", 5)])
    connections = asyncio.run(publish_all(config.load(None, variables(relay)), 5, application))
    assert connections == 3, "a relay that leads has three connections, the page says"
    with psycopg.connect(application) as connection:
        outbox.add_all(connection, [NewMessage("orders", 6, key="a"), NewMessage("orders", 7, key="a")])
    asyncio.run(operate(config.load(None, variables(relay))))


async def publish_all(settings: config.Config, count: int, observed_from: str) -> int:
    """A relay with the role's rights publishes everything and ends well; the number of connections that it had."""
    seen: list[Event] = []
    relay = app.relay(settings, seen.append)
    running = asyncio.create_task(relay.run())
    async with asyncio.timeout(30):
        while sum(event.messages for event in seen if isinstance(event, Published)) < count:
            assert not running.done(), running.exception()
            await asyncio.sleep(0.02)
    connections = connections_of(settings.database.url, observed_from)
    relay.stop()
    await running
    assert (await app.status(settings)).pending == 0
    return connections


async def operate(settings: config.Config) -> None:
    """Of two messages that wait one is parked and retried, the other parked and discarded."""
    session = await app.source(settings).connect()
    one, two = await session.pending(Lane("rights"), 10)
    await session.park([(one, "too large"), (two, "too large")])
    async with app.parked(settings) as store:
        page = await store.page(ParkedFilter(), 10)
        assert [await store.payload(row) for row in page] == [b"6", b"7"]
        assert (await store.retry(page[:1]), await store.discard(page[1:])) == ([one.id], [two.id])
    assert [row.id for row in await session.pending(Lane("rights"), 10)] == [one.id]
    await session.close()


def connections_of(url: str, observed_from: str) -> int:
    """How many connections the user of a URL has."""
    if url.startswith("mysql"):
        return len(ask(url, "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID()"))
    with psycopg.connect(observed_from) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE usename = %s"
        row = connection.execute(query, [urlsplit(url).username]).fetchone()
    assert row is not None
    return int(row[0])


async def test_rights_in_nats(tmp_path: Path) -> None:
    permissions = the_block(DOCS / "nats.md", "text", "permissions").text
    users = f"authorization {{ users: [ {{ user: relay, password: right, {permissions} }} ] }}"
    with OwnNats(tmp_path, users).running() as server:
        await publish_with_rights(server.url)


async def publish_with_rights(url: str) -> None:
    """Two owners, enough batches for old receipts to be removed."""
    settings = {"user": "relay", "password": "right"}
    one = broker(BrokerOptions(url=url, source="/shop", timeout_s=10, settings=settings))
    assert (await one.open()).delivery is Delivery.ATOMIC
    lane = Lane("orders")
    for token in (1, 2, 3):
        handoff = await one.take_over(lane, Term(lane.name, f"owner-{token}", token))
        for number in range(70):
            batch = (
                [row(1000 * token + number, "orders.placed")] if number else rows(20, 10_000 * token, topic="orders")
            )
            assert (await handoff.publish(batch)).failed == ()
        await handoff.close()
    await one.close()
