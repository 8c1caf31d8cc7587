"""Parked messages worked off: how much is done, what passes, what ends; and who offers it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from fencepost import plugins
from fencepost.app import parked, work_off_parked
from fencepost.cli.lengths import moment_of
from fencepost.cli.messages import lines_of, plain, with_content
from fencepost.config import load
from fencepost.databases import memory
from fencepost.errors import ConfigurationError, Contention, Unavailable
from fencepost.ports import DatabaseOptions, Lane, ParkedFilter, ParkedMessage, Parking
from fencepost.ports.parking import PARKED_BATCH, RETRIED, marked
from fencepost.testing.messages import message

EVERYTHING = ParkedFilter()
URLS = {
    "cockroachdb": "cockroachdb://host/shop",
    "dynamodb": "dynamodb://eu-west-1",
    "mariadb": "mariadb://host/shop",
    "memory": "memory://offers",
    "mongodb": "mongodb://host/shop",
    "mongodb-embedded": "mongodb-embedded://host/shop?collections=orders",
    "mssql": "mssql://host/shop",
    "mysql": "mysql://host/shop",
    "oracle": "oracle://host/shop",
    "postgresql": "postgresql://host/shop",
    "redis": "redis://host",
    "sqlite": "sqlite:///shop.db",
}


def test_every_database_lets_somebody_look_after_parked_messages() -> None:
    assert URLS.keys() == set(plugins.names("database"))
    for name, url in URLS.items():
        source = plugins.load("database", name).source(DatabaseOptions(url=url))
        assert isinstance(source, Parking), name


async def test_a_database_that_lets_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in may leave it out."""
    monkeypatch.setattr(memory, "source", lambda _: object())  # what a source needs beside it is not looked at here
    given = {"RELAY__NAME": "shop", "DATABASE__URL": URLS["memory"], "BROKER__URL": "memory://offers"}
    config = load(None, {f"FENCEPOST_{name}": value for name, value in given.items()})
    with pytest.raises(ConfigurationError, match="lets nobody look after parked messages"):
        async with parked(config):
            pass


@pytest_asyncio.fixture
async def outbox() -> AsyncIterator[memory.MemoryDatabase]:
    """With 250 parked messages."""
    url = "memory://parking"
    database = memory.database(url)
    with database.transaction() as transaction:
        for _ in range(250):
            transaction.add(message("k"))
    session = await memory.source(DatabaseOptions(url=url)).connect()
    await session.park([(row, "too large") for row in await session.pending(Lane("x"), 1_000)])
    yield database
    memory.forget(url)


async def test_no_more_than_were_there_are_retried_though_they_are_parked_again(outbox: memory.MemoryDatabase) -> None:
    options = DatabaseOptions(url=outbox.url)
    session = await memory.source(options).connect()
    store = await memory.source(options).parked()

    async def in_vain(rows: Sequence[ParkedMessage]) -> Sequence[str]:
        done = await store.retry(rows)
        await session.park([(row, "still too large") for row in await session.pending(Lane("x"), 1_000)])
        return done

    told = [progress async for progress in work_off_parked(store, EVERYTHING, in_vain)]
    assert [progress.done for progress in told] == [PARKED_BATCH, 2 * PARKED_BATCH, 250]
    assert {row.message.headers[RETRIED] for row in outbox.parked if row.message.headers} == {"1"}


async def test_a_limit_takes_the_oldest(outbox: memory.MemoryDatabase) -> None:
    store = await memory.source(DatabaseOptions(url=outbox.url)).parked()
    oldest = [one.message.id for one in await store.page(EVERYTHING, 120)]
    told = [progress async for progress in work_off_parked(store, EVERYTHING, store.retry, limit=120)]
    assert told[-1] == (120, 0)
    assert [row.message.id for row in outbox.rows] == oldest


async def test_who_was_in_the_way_is_waited_for_and_what_is_gone_is_counted(outbox: memory.MemoryDatabase) -> None:
    store = await memory.source(DatabaseOptions(url=outbox.url)).parked()
    calls = 0

    async def busy(rows: Sequence[ParkedMessage]) -> Sequence[str]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Contention("somebody else")
        if calls == 2:
            await store.discard(rows[:7])
        return await store.retry(rows)

    told = [progress async for progress in work_off_parked(store, EVERYTHING, busy)]
    assert (told[-1], calls) == ((243, 7), 4)


async def test_other_errors_end_it(outbox: memory.MemoryDatabase) -> None:
    store = await memory.source(DatabaseOptions(url=outbox.url)).parked()

    async def broken(_: Sequence[ParkedMessage]) -> Sequence[str]:
        raise Unavailable("no disk")

    with pytest.raises(Unavailable):
        [_ async for _ in work_off_parked(store, EVERYTHING, broken)]


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("1", "2"), ("9", "10"), ("nonsense", "1"), ("²", "1")])
def test_the_mark_counts(before: str | None, after: str) -> None:
    headers = None if before is None else {RETRIED: before, "trace": "a"}
    assert marked(headers)[RETRIED] == after


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", NOW - timedelta(hours=2)),
        ("90", NOW - timedelta(seconds=90)),
        ("2026-02-28", datetime(2026, 2, 28, tzinfo=UTC)),
        ("2026-02-28T12:00+02:00", datetime(2026, 2, 28, 10, tzinfo=UTC)),
    ],
)
def test_moments(text: str, moment: datetime) -> None:
    assert moment_of("--since", text, NOW) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "99999999d", "0001-01-01T00:00+14:00", "2026-13-01"])
def test_other_moments_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--since"):
        moment_of("--since", text, NOW)


def test_nothing_in_a_message_writes_on_a_terminal() -> None:
    assert plain("a\x1b[2J\n\tb\x9b") == "a\N{REPLACEMENT CHARACTER}[2J b\N{REPLACEMENT CHARACTER}"
    assert with_content(b"\x1b[2J") == {"payload_base64": "G1sySg=="}
    assert with_content("h\u00e9\n".encode()) == {"payload": "h\u00e9\n"}
    assert with_content(b"") == {"payload": ""}
    assert list(lines_of({"headers": {"a": "b\x07"}, "key": None})) == ["header a: b\N{REPLACEMENT CHARACTER}"]
