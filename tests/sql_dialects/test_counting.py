"""Versions that are counted under the lock of the entity's row, as for Oracle and SQL Server: run on a MariaDB.

There too a statement that fails leaves its transaction as it was, and FOR UPDATE waits for whoever has the row.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from fencepost.clock import SYSTEM_CLOCK
from fencepost.drivers.sqlalchemy import join
from fencepost.errors import MessageRefused, VersionConflict
from fencepost.flows import run
from fencepost.message import Message
from fencepost.sql.adding import OutboxWriter
from fencepost.sql.other import dialect_of
from fencepost.sql.outbox import AddStatements
from fencepost.sql.outbox_other import count_by_hand
from fencepost.sql.tables import Tables, tables
from fencepost.sql.transaction import Blocking, Call, Rows

T = tables()
WAIT_S = 10.0


class CountingWriter(OutboxWriter):
    """Writes as for a database that cannot raise and tell a version in one statement."""

    def statements(self, dialect: Dialect) -> AddStatements:
        own = super().statements(dialect)
        counting = count_by_hand(T.entity, dialect)
        return replace(own, counting=counting, entity_drawn=None, entity_given=None, chunks=None)


WRITER = CountingWriter(None, "fencepost_", "counter")


@pytest.fixture
def engine(fresh_mariadb: str) -> Iterator[sa.Engine]:
    url = sa.make_url(fresh_mariadb).set(drivername="mysql+pymysql")
    made = sa.create_engine(url, isolation_level="READ COMMITTED", poolclass=sa.NullPool)
    T.metadata.create_all(made)
    yield made
    made.dispose()


def message(key: str | None = "a", version: int | None = None, payload: bytes = b"{}") -> Message:
    now = SYSTEM_CLOCK.now()
    return Message(id=SYSTEM_CLOCK.new_id(), topic="orders", payload=payload, occurred_at=now, key=key, version=version)


def add(
    connection: sa.Connection, *messages: Message, after_first: Callable[[], None] | None = None
) -> Sequence[int | None]:
    """The versions. ``after_first`` is called when the first statement was executed."""
    joined = join(connection)
    assert isinstance(joined, Blocking)
    waiting = [] if after_first is None else [after_first]

    def execute(call: Call) -> Rows:
        rows = joined.execute(call)
        if waiting:
            waiting.pop()()
        return rows

    return [m.version for m in run(WRITER.write(joined.dialect, messages), execute)]


def rows(engine: sa.Engine, *columns: Any) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.select(*columns).order_by(columns[0]))]


@pytest.mark.mariadb
def test_versions_count_from_one_for_each_key(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        assert add(connection, message("a"), message("b"), message("a"), message(None)) == [1, 1, 2, None]
    with engine.begin() as connection:
        assert add(connection, message("a")) == [3]
    assert rows(engine, T.entity.c.key, T.entity.c.version) == [("a", 3), ("b", 1)]
    stored = rows(engine, T.outbox.c.seq, T.outbox.c.key, T.outbox.c.version)
    assert [version for _, key, version in stored if key == "a"] == [1, 2, 3]


@pytest.mark.mariadb
def test_a_version_of_one_s_own_must_be_newer(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        assert add(connection, message("a", 5)) == [5]
    for old in (5, 4):
        with pytest.raises(VersionConflict), engine.begin() as connection:
            add(connection, message("a", old))
    with engine.begin() as connection:
        assert add(connection, message("a", 9)) == [9]
    assert [v for _, v in rows(engine, T.outbox.c.seq, T.outbox.c.version)] == [5, 9]


@pytest.mark.mariadb
def test_two_who_begin_an_entity_at_once_are_its_first_and_its_second(engine: sa.Engine) -> None:
    """B4: whoever comes second waits for the first one's row, is told that it is there, and counts on."""
    waiting, done = threading.Event(), threading.Event()
    versions: list[int | None] = []

    def second() -> None:
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT 1"))
            waiting.set()
            versions.extend(add(connection, message("a")))
        done.set()

    with engine.begin() as connection:
        assert add(connection, message("a")) == [1]
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(WAIT_S)
        assert not done.wait(0.5)  # it waits for the row
    thread.join(WAIT_S)
    assert versions == [2]
    assert [v for _, v in rows(engine, T.outbox.c.seq, T.outbox.c.version)] == [1, 2]


@pytest.mark.mariadb
def test_a_first_one_who_is_told_that_the_row_is_there_counts_on(engine: sa.Engine) -> None:
    """B4: no row was there to be locked; when it is to be made, somebody else has made it, and has committed."""

    def other() -> None:
        with engine.begin() as connection:
            assert add(connection, message("a")) == [1]

    with engine.begin() as connection:
        assert add(connection, message("a"), after_first=other) == [2]
        assert add(connection, message("a")) == [3]
    assert [v for _, v in rows(engine, T.outbox.c.seq, T.outbox.c.version)] == [1, 2, 3]


@pytest.mark.mariadb
def test_many_writers_of_new_entities_make_no_gap_and_no_twin(engine: sa.Engine) -> None:
    """B4"""
    begin = threading.Barrier(4)

    def added(key: str) -> bool:
        try:
            with engine.begin() as connection:
                add(connection, message(key))
        except sa.exc.OperationalError as error:  # three who make one row may end in InnoDB's deadlock
            assert "1213" in str(error)  # noqa: PT017
            return False
        return True

    def write() -> None:
        begin.wait(WAIT_S)
        for number in range(20):
            while not added(f"key-{number}"):
                pass

    threads = [threading.Thread(target=partial(write)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(6 * WAIT_S)
    of_key: dict[str, list[int]] = {}
    for _, key, version in rows(engine, T.outbox.c.seq, T.outbox.c.key, T.outbox.c.version):
        of_key.setdefault(key, []).append(version)
    assert of_key == {f"key-{number}": [1, 2, 3, 4] for number in range(20)}


def test_an_empty_payload_is_refused_by_oracle_only() -> None:
    """E7: there it would be kept as none at all, which is a tombstone."""
    writer = OutboxWriter(None, "fencepost_", "counter")
    with pytest.raises(MessageRefused, match="read as a tombstone"):
        writer.check(dialect_of("oracle"), [message(), message(payload=b"")])
    assert writer.check(dialect_of("mssql"), [message(payload=b"")]).counting is not None
    assert writer.check(dialect_of("cockroachdb"), [message(payload=b"")]).counting is None


def test_the_tables_are_those_of_the_writer() -> None:
    assert isinstance(T, Tables)
    assert T.outbox.name == f"{WRITER.prefix}outbox"
