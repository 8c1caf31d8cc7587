"""SQLite: lock files, writers that keep the database busy, files that are not there."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import aiosqlite
import pytest

from fencepost.errors import ConfigurationError, Contention, SchemaMissing
from fencepost.leases import Leadership
from fencepost.ports import LeaseOptions
from tests.leases.places import Place, make_place

NAME = "orders.0"
LONG_S = 30.0


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = make_place("sqlite", f"sqlite:///{tmp_path / 'leases.db'}")
    yield made
    await made.close()


def lock_files(place: Place) -> list[str]:
    folder = Path(place.url.removeprefix("sqlite:///")).parent
    return sorted(path.name for path in folder.glob("*.lock"))


async def test_the_lock_file_lives_as_long_as_the_term(place: Place) -> None:
    (store,) = await place.sessions(1)
    first = await store.acquire(NAME, "one", LONG_S)
    assert first is not None
    assert lock_files(place) == ["leases.db-fencepost_lease-orders.0.1.lock"]
    second = await store.acquire(NAME, "one", LONG_S)
    assert second is not None
    assert lock_files(place) == ["leases.db-fencepost_lease-orders.0.2.lock"]
    await store.release(second)
    assert lock_files(place) == []


async def test_a_connection_that_is_ended_under_a_call_logs_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLAlchemy logs a traceback where the cursor of a failed statement cannot be closed any more."""

    async def closed(_: aiosqlite.Cursor) -> None:
        raise sqlite3.ProgrammingError("Cannot operate on a closed database.")

    (store,) = await place.sessions(1)
    assert await store.holder(NAME) is None
    with closing(sqlite3.connect(place.url.removeprefix("sqlite:///"))) as other:
        other.execute("DROP TABLE fencepost_lease")
    monkeypatch.setattr(aiosqlite.Cursor, "close", closed)
    with pytest.raises(SchemaMissing):
        await store.holder(NAME)
    assert [record.name for record in caplog.records if record.name.startswith("sqlalchemy")] == []


async def test_a_successor_takes_the_lock_file_away(place: Place) -> None:
    one, two = await place.sessions(2)
    await one.acquire(NAME, "one", LONG_S)
    await one.close()
    assert lock_files(place) == ["leases.db-fencepost_lease-orders.0.1.lock"]
    assert await two.acquire(NAME, "two", LONG_S) is not None
    assert lock_files(place) == ["leases.db-fencepost_lease-orders.0.2.lock"]


async def test_a_name_of_any_characters(place: Place) -> None:
    (store,) = await place.sessions(1)
    for name in ("../up", "a/b", "ä b", "n" * 255):
        term = await store.acquire(name, "one", LONG_S)
        assert term is not None
        assert await store.renew(term, LONG_S)
    assert "leases.db-fencepost_lease-..%2Fup.1.lock" in lock_files(place)
    # too long for the name of a file: a lease without evidence
    assert place.execute("SELECT session FROM {lease} WHERE length(name) = 255") == [(0,)]


async def test_a_lock_file_that_somebody_removed_proves_nothing(place: Place) -> None:
    one, two = await place.sessions(2)
    await one.acquire(NAME, "one", 2.0)
    for name in lock_files(place):
        Path(place.url.removeprefix("sqlite:///")).with_name(name).unlink()
    started = time.monotonic()
    await two.wait(NAME, 1.0)
    assert time.monotonic() - started > 0.9
    assert await two.acquire(NAME, "two", LONG_S) is None
    await two.wait(NAME, LONG_S)
    term = await two.acquire(NAME, "two", LONG_S)
    assert term is not None
    assert not term.early


async def test_a_leader_outlives_a_writer_that_takes_its_time(place: Place) -> None:
    store = place.store()
    tenure = await Leadership(store, NAME, "one", 3.0).campaign()
    writer = sqlite3.connect(place.url.removeprefix("sqlite:///"), isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    await asyncio.sleep(1.8)
    writer.execute("ROLLBACK")
    writer.close()
    await asyncio.sleep(1.5)
    assert not tenure.lost.is_set()
    await tenure.release()


async def test_a_database_that_is_busy_for_too_long(place: Place) -> None:
    one, two = place.store(timeout_s=0.5), place.store(timeout_s=0.5)
    term = await one.acquire(NAME, "one", LONG_S)
    assert term is not None
    writer = sqlite3.connect(place.url.removeprefix("sqlite:///"), isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(Contention, match="locked"):
        await one.renew(term, LONG_S)
    with pytest.raises(Contention):
        await two.acquire("another", "two", LONG_S)
    assert await two.acquire(NAME, "two", LONG_S) is None  # who only looks needs no lock
    writer.execute("ROLLBACK")
    writer.close()
    assert await one.renew(term, LONG_S)
    assert place.execute("SELECT session FROM {lease} WHERE name = :n", n=NAME) == [(1,)]
    assert await two.acquire("another", "two", LONG_S) is not None


async def test_waiting_needs_hardly_a_statement(place: Place) -> None:
    """The lock file is asked, not the database."""
    one, two = await place.sessions(2)
    await one.acquire(NAME, "one", LONG_S)
    statements: list[str] = []
    driver = two._link._wire.driver  # type: ignore[attr-defined]
    await driver.set_trace_callback(statements.append)
    await two.wait(NAME, 2.0)
    assert len([s for s in statements if "lease" in s]) == 1


async def test_a_missing_table_or_file_is_named_with_the_remedy(place: Place, tmp_path: Path) -> None:
    missing = Place("sqlite", place.url, LeaseOptions(url="", prefix="nothing_")).store()
    with pytest.raises(SchemaMissing, match=r"nothing_lease.*fencepost schema apply"):
        await missing.open()
    await missing.close()
    nowhere = place.store(url=f"sqlite:///{tmp_path}/nowhere.db")
    with pytest.raises(SchemaMissing, match=r"nowhere\.db.*fencepost schema apply"):
        await nowhere.open()
    assert not (tmp_path / "nowhere.db").exists()
    (tmp_path / "text.db").write_text("this is not a database, whatever it is called\n" * 100)
    with pytest.raises(ConfigurationError, match="not a database"):
        await place.store(url=f"sqlite:///{tmp_path}/text.db").open()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_a_database_that_others_cannot_open_is_refused(place: Place, url: str) -> None:
    with pytest.raises(ConfigurationError, match="sqlite:///PATH"):
        place.store(url=url)
