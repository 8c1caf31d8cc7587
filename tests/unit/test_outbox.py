"""How an outbox makes a message from its arguments; where it is written to is a matter of tests/drivers."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from fencepost.clock import SystemClock
from fencepost.errors import ConfigurationError, MessageRefused
from fencepost.message import Message
from fencepost.outbox import Encoder, NewMessage, Outbox
from fencepost.sql.tables import State, tables

NOW = datetime(2026, 5, 6, 7, 8, 9, 10, tzinfo=UTC)


class Clock(SystemClock):
    """A clock that stands still."""

    def now(self) -> datetime:
        return NOW

    def new_id(self) -> str:
        return "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def tx() -> Iterator[sqlite3.Connection]:
    from sqlalchemy.dialects.sqlite.pysqlite import dialect
    from sqlalchemy.schema import CreateTable

    with closing(sqlite3.connect(":memory:")) as connection:
        for table in tables().metadata.sorted_tables:
            connection.execute(str(CreateTable(table).compile(dialect=dialect())))
        yield connection


def test_the_least_that_a_message_needs(tx: sqlite3.Connection) -> None:
    assert Outbox(clock=Clock()).add(tx, "orders", {"id": 1}) == Message(
        id="01890a5d-ac96-774b-bcce-b302099a8057", topic="orders", payload=b'{"id":1}', occurred_at=NOW
    )


def test_everything_that_a_message_may_have(tx: sqlite3.Connection) -> None:
    message = Outbox(clock=Clock()).add(
        tx,
        "orders",
        b"<order/>",
        key="1",
        type="placed",
        headers={"a": "b"},
        version=7,
        content_type="application/xml",
        id="11111111-2222-7333-8444-555555555555",
        occurred_at=NOW - timedelta(hours=1),
        available_at=NOW + timedelta(hours=1),
    )
    assert message == Message(
        id="11111111-2222-7333-8444-555555555555",
        topic="orders",
        payload=b"<order/>",
        occurred_at=NOW - timedelta(hours=1),
        key="1",
        version=7,
        type="placed",
        content_type="application/xml",
        headers={"a": "b"},
        available_at=NOW + timedelta(hours=1),
    )


def test_new_ids_are_uuids_of_version_7_that_grow(tx: sqlite3.Connection) -> None:
    ids = [Outbox().add(tx, "t", n).id for n in range(3)]
    assert {one[14] for one in ids} == {"7"}
    assert len(set(ids)) == 3
    assert [one[:13] for one in ids] == sorted(one[:13] for one in ids)


@pytest.mark.parametrize(
    ("payload", "encoded"),
    [
        ({"a": [1, 2.5, None, True], "b": "é\u2028"}, '{"a":[1,2.5,null,true],"b":"é\u2028"}'),
        ("text", '"text"'),
        ("", '""'),
        (0, "0"),
        (False, "false"),
        ([], "[]"),
        (10**40, "1" + "0" * 40),
    ],
)
def test_values_are_encoded_as_compact_json(tx: sqlite3.Connection, payload: object, encoded: str) -> None:
    message = Outbox().add(tx, "t", payload)
    assert (message.payload, message.content_type) == (encoded.encode(), "application/json")


@pytest.mark.parametrize("payload", [b"\0\xff", bytearray(b"\0\xff"), memoryview(b"\0\xff")])
def test_bytes_are_taken_as_they_are(tx: sqlite3.Connection, payload: object) -> None:
    message = Outbox().add(tx, "t", payload)
    assert (message.payload, message.content_type) == (b"\0\xff", "application/octet-stream")
    assert Outbox().add(tx, "t", payload, content_type="text/plain").content_type == "text/plain"


def test_none_is_a_tombstone_and_no_bytes_are_not(tx: sqlite3.Connection) -> None:
    """E7"""
    Outbox().add(tx, "t", None, key="1")
    Outbox().add(tx, "t", b"", key="1")
    assert tx.execute("SELECT payload FROM fencepost_outbox ORDER BY seq").fetchall() == [(None,), (b"",)]


def looped() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep() -> list[Any]:
    inner: list[Any] = []
    for _ in range(100_000):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    "payload",
    [float("nan"), {"a": float("inf")}, NOW, Decimal(1), {1, 2}, {(1, 2): 3}, object(), "\ud800", looped(), deep()],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_encoded_is_refused(tx: sqlite3.Connection, payload: object) -> None:
    """E3"""
    with pytest.raises(
        MessageRefused, match=r"payload for topic 't' cannot be encoded as application/json.*pass bytes"
    ):
        Outbox().add(tx, "t", payload)
    assert not tx.in_transaction


def test_an_encoder_of_ones_own(tx: sqlite3.Connection) -> None:
    outbox = Outbox(encoder=Encoder(lambda value: repr(value).encode(), "text/x-python"))
    message = outbox.add(tx, "t", {1: NOW})
    assert (message.payload, message.content_type) == (repr({1: NOW}).encode(), "text/x-python")
    default = Outbox(encoder=Encoder(lambda value: json.dumps(value, default=str).encode()))
    assert default.add(tx, "t", NOW).payload == f'"{NOW}"'.encode()


@pytest.mark.parametrize(
    "arguments",
    [
        {"topic": "a b"},
        {"key": 7},
        {"key": ""},
        {"headers": {"ce_id": "1"}},
        {"headers": [("a", "1"), ("a", "2")]},
        {"headers": "a: 1"},
        {"version": 1, "key": None},
        {"occurred_at": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"occurred_at": 1.5},
        {"available_at": "tomorrow"},
        {"occurred_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))},
        {"id": "x"},
        {"payload": b"x" * 1_000_001},
        {"payload": "é" * 500_000},
    ],
    ids=str,
)
def test_what_is_refused_writes_nothing(tx: sqlite3.Connection, arguments: dict[str, Any]) -> None:
    """E1, E4, E6: before any statement, and for all of a batch."""
    given: dict[str, Any] = {"topic": "t", "payload": 1, "key": "1"} | arguments
    with pytest.raises(MessageRefused) as caught:
        Outbox().add(tx, **given)
    assert caught.value.remedy
    with pytest.raises(MessageRefused):
        Outbox().add_all(tx, [NewMessage("t", 1), NewMessage(**given)])
    assert not tx.in_transaction
    assert tx.execute("SELECT count(*) FROM fencepost_outbox").fetchone() == (0,)


def test_the_size_limit_is_an_option(tx: sqlite3.Connection) -> None:
    with pytest.raises(MessageRefused, match="has 11 bytes, the limit is 10"):
        Outbox(max_bytes=10).add(tx, "t", b"x" * 11)
    assert Outbox(max_bytes=None).add(tx, "t", b"x" * 1_500_000).payload == b"x" * 1_500_000


@pytest.mark.parametrize(
    ("due", "state", "kept"),
    [
        (NOW + timedelta(microseconds=1), State.DELAYED, True),
        (NOW, State.PENDING, False),
        (NOW - timedelta(days=1), State.PENDING, False),
        (None, State.PENDING, False),
    ],
)
def test_only_what_is_due_later_waits(tx: sqlite3.Connection, due: datetime | None, state: State, kept: bool) -> None:
    message = Outbox(clock=Clock()).add(tx, "t", 1, available_at=due)
    assert message.available_at == (due if kept else None)
    (row,) = tx.execute("SELECT state, available_at FROM fencepost_outbox").fetchall()
    assert row == (state, "2026-05-06 07:08:09.000011" if kept else None)


def test_times_become_utc(tx: sqlite3.Connection) -> None:
    """B9"""
    lima = timezone(timedelta(hours=-5))
    message = Outbox(clock=Clock()).add(
        tx,
        "t",
        1,
        occurred_at=datetime(2026, 1, 1, 22, tzinfo=lima),
        available_at=datetime(2027, 1, 1, 22, tzinfo=lima),
    )
    assert message.occurred_at.isoformat() == "2026-01-02T03:00:00+00:00"
    assert message.available_at is not None
    assert message.available_at.isoformat() == "2027-01-02T03:00:00+00:00"


def test_blocking_sessions_do_without_greenlet() -> None:
    """A plain install has no greenlet, which SQLAlchemy's asyncio part wants as soon as it is imported."""
    program = """
import sys
sys.modules["greenlet"] = None
import sqlalchemy, sqlalchemy.orm
from fencepost.outbox import Outbox
from fencepost.sql.tables import tables
with sqlalchemy.orm.Session(sqlalchemy.create_engine("sqlite://")) as session:
    tables().metadata.create_all(session.connection())
    Outbox().add(session, "t", 1)
    session.flush()
    print(session.execute(sqlalchemy.text("SELECT count(*) FROM fencepost_outbox")).scalar())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="versions='serial': use one of 'counter', 'position'"):
        Outbox(versions="serial")  # type: ignore[arg-type]


def test_a_message_may_come_from_a_generator(tx: sqlite3.Connection) -> None:
    written = Outbox().add_all(tx, (NewMessage("t", n, key="1") for n in range(3)))
    assert [message.version for message in written] == [1, 2, 3]
