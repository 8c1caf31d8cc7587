"""The same order on SQLite, where one writer at a time has the whole database."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from fencepost.errors import VersionConflict
from fencepost.message import Message
from fencepost.outbox import NewMessage, Outbox
from fencepost.sql.outbox import Versions
from tests.drivers.ways import Place

BOTH = pytest.mark.parametrize("versions", ["counter", "position"])


class Unlucky(Exception):
    """A writer rolls back."""


@contextmanager
def immediate(place: Place) -> Iterator[sqlite3.Connection]:
    """A transaction that has the write lock from its beginning."""
    with closing(sqlite3.connect(place.path, timeout=60, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            yield connection


@contextmanager
def implicit(place: Place) -> Iterator[sqlite3.Connection]:
    """A transaction that the module begins, at the first change."""
    with closing(sqlite3.connect(place.path, timeout=60)) as connection, connection:
        connection.execute("INSERT INTO business (value) VALUES (1)")
        yield connection


def run_threads(targets: list[threading.Thread]) -> None:
    for thread in targets:
        thread.start()
    for thread in targets:
        thread.join(60)
        assert not thread.is_alive()


@BOTH
def test_many_writers_few_keys(sqlite: Place, versions: Versions) -> None:
    """B5"""
    outbox = Outbox(versions=versions, **sqlite.names)
    with closing(sqlite3.connect(sqlite.path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    committed: list[Message] = []

    def write(number: int) -> None:
        chance = random.Random(number)
        for n in range(12):
            keys = [f"k{chance.randrange(5)}" for _ in range(chance.choice((1, 1, 3)))]
            try:
                with (immediate if n % 2 else implicit)(sqlite) as connection:
                    written = outbox.add_all(connection, [NewMessage("orders", 0, key=key) for key in keys])
                    if chance.random() < 0.25:
                        raise Unlucky
            except Unlucky:
                continue
            committed.extend(written)

    run_threads([threading.Thread(target=write, args=(number,)) for number in range(12)])
    rows = sqlite.rows()
    assert len(committed) > 80
    assert {row["id"] for row in rows} == {message.id for message in committed}
    said = {message.id: message.version for message in committed}
    for key in {row["key"] for row in rows}:
        its = [row for row in rows if row["key"] == key]
        stored = [row["version"] if versions == "counter" else row["seq"] for row in its]
        assert [said[row["id"]] for row in its] == stored
        if versions == "counter":
            assert stored == list(range(1, len(its) + 1))


def test_a_race_for_versions_has_one_winner_each(sqlite: Place) -> None:
    outbox = Outbox(**sqlite.names)
    won: list[int] = []

    def race() -> None:
        for version in range(1, 11):
            try:
                with immediate(sqlite) as connection:
                    outbox.add(connection, "orders", 0, key="1", version=version)
            except VersionConflict:
                continue
            won.append(version)

    run_threads([threading.Thread(target=race) for _ in range(4)])
    assert sorted(won) == sorted(set(won))
    assert 10 in won
    assert [row["version"] for row in sqlite.rows()] == sorted(won)
