"""H5: a relay on a table of somebody else is killed again and again, and every row arrives once, in order."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen, reader_factory
from tests.cli.process import configuration, make_tables, run, running

ROWS, KEYS, KILLS = 1_200, 7, 3
TOPIC = "outbox.event.order"
EXISTING = """
[lease]
ttl_s = 1.0
[existing]
table = "outboxevent"
position = "position"
topic = "outbox.event.{aggregatetype}"
key = "aggregateid"
type = "{type}"
payload = "payload"
"""
DEBEZIUM = (
    "CREATE TABLE outboxevent (id uuid NOT NULL PRIMARY KEY, aggregatetype varchar(255) NOT NULL,"
    " aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb, tenant int NOT NULL)"
)
ORDERED = "ALTER TABLE outboxevent ADD COLUMN position bigint GENERATED ALWAYS AS IDENTITY UNIQUE"
INSERT = (
    "INSERT INTO outboxevent (id, aggregatetype, aggregateid, type, payload, tenant)"
    " VALUES (gen_random_uuid(), 'order', %s, 'OrderPlaced', jsonb_build_object('n', %s::int), 7) RETURNING id"
)


@pytest.fixture
def shop(fresh_database: str, nats_url: str, fresh_name: str, tmp_path: Path) -> Path:
    """A folder with a configuration, and a database in which an application has its own outbox."""
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute(DEBEZIUM.encode())
        connection.execute(ORDERED)
    stream = f'stream = "{fresh_name}"\nsubject_prefix = "{fresh_name}."\n{EXISTING}'
    configuration(tmp_path, database=fresh_database, broker=nats_url, name=fresh_name, more=stream)
    file = tmp_path / "fencepost.toml"
    file.write_text(file.read_text().replace("[relay]", "[relay]\nbatch = 40\npoll_s = 0.2"))
    make_tables(tmp_path)
    return tmp_path


@contextmanager
def writing(url: str) -> Iterator[list[str]]:
    """An application that commits rows all the while; their ids, in order, once the block is left."""
    committed: list[str] = []

    def write() -> None:
        with psycopg.connect(url) as connection:
            for number in range(ROWS):
                ((message_id,),) = connection.execute(INSERT.encode(), (f"k{number % KEYS}", number)).fetchall()
                connection.commit()
                committed.append(str(message_id))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield committed
    finally:
        thread.join()


def waiting(url: str) -> tuple[int, int]:
    """How many rows were handed out and how many wait."""
    with psycopg.connect(url) as connection:
        text = "SELECT coalesce(pg_sequence_last_value('outboxevent_position_seq'), 0), count(*) FROM outboxevent"
        ((drawn, left),) = connection.execute(text).fetchall()
    return drawn, left


def until_settled(url: str, count: int, give_up_s: float = 60.0) -> None:
    give_up = time.monotonic() + give_up_s
    while True:
        drawn, left = waiting(url)
        if drawn - left >= count:
            return
        assert time.monotonic() < give_up, (drawn, left)
        time.sleep(0.02)


async def test_each_row_is_published_once_though_relays_are_killed(
    shop: Path, fresh_database: str, nats_url: str, fresh_name: str
) -> None:
    with writing(fresh_database) as committed:
        for kill in range(KILLS):
            with running("relay", cwd=shop) as relay:
                until_settled(fresh_database, 1 + kill * ROWS // (KILLS + 1))
                assert relay.ended(signal.SIGKILL) == -signal.SIGKILL
    with running("relay", cwd=shop) as relay:
        until_settled(fresh_database, ROWS)
        said = relay.said()
        assert relay.ended(signal.SIGTERM) == 0
    assert '"event": "outbox_limited"' in said
    settings: dict[str, Any] = {"stream": fresh_name, "subject_prefix": f"{fresh_name}."}
    reader = reader_factory("nats")(BrokerOptions(url=nats_url, source="/t", settings=settings))
    seen: list[Seen] = list(await reader.read(TOPIC))
    await reader.close()
    assert len(committed) == ROWS
    assert [one.id for one in seen] == committed  # one writer: the order of commits is that of positions
    assert {one.attributes["type"] for one in seen} == {"OrderPlaced"}


def test_check_says_what_the_table_cannot_do(shop: Path) -> None:
    result = run("check", cwd=shop)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "limit: no lock of the entity" in result.stdout
