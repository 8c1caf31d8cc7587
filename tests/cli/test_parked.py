"""`fencepost parked`: what is listed and shown, retried, discarded, refused; and a process that dies in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sqlite3
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import chdir, closing
from pathlib import Path
from typing import Any

import pytest

from fencepost import Outbox, app
from fencepost.cli.program import program
from fencepost.config import load
from fencepost.errors import FixError
from fencepost.ports import Lane
from fencepost.testing.messages import message
from fencepost.testing.places import outbox_place
from fencepost.testing.sources import parking
from tests.cli.process import COMMAND, configuration, environment, make_tables, run, running

EVERY = ("SELECT id FROM fencepost_outbox ORDER BY seq", "SELECT id FROM fencepost_parked ORDER BY seq")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a configuration, and an outbox in SQLite."""
    configuration(tmp_path, database="sqlite:///orders.db", broker="memory://parked")
    make_tables(tmp_path)
    return tmp_path


def add(folder: Path, *messages: tuple[str, object, str | None]) -> list[str]:
    """Commit messages (topic, payload, key); their ids."""
    outbox = Outbox()
    with closing(sqlite3.connect(folder / "orders.db")) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        return [outbox.add(connection, topic, payload, key=key).id for topic, payload, key in messages]


def park(folder: Path, ids: Sequence[str], reason: str = "too large") -> None:
    """As a relay does it."""

    async def move() -> None:
        session = await app.source(load(Path("fencepost.toml"), {})).connect()
        rows = [row for row in await session.pending(Lane("clitest"), 10_000) if row.id in set(ids)]
        await session.park([(row, reason) for row in rows])
        await session.close()

    with chdir(folder):
        asyncio.run(move())


def ids(folder: Path) -> tuple[list[str], list[str]]:
    """What is in the outbox, in order, and what is parked."""
    with closing(sqlite3.connect(folder / "orders.db")) as connection:
        waiting, parked = ([found for (found,) in connection.execute(query)] for query in EVERY)
    return waiting, parked


Say = Callable[..., list[str]]
"""Runs the command in this process; the lines that it prints."""


@pytest.fixture
def say(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    monkeypatch.chdir(folder)
    capsys.readouterr()

    def run_here(*arguments: str) -> list[str]:
        assert not program(pretty=False).main(arguments, standalone_mode=False)
        return capsys.readouterr().out.splitlines()

    return run_here


def record(lines: Sequence[str]) -> Any:
    """The JSON of the last line."""
    return json.loads(lines[-1])


def test_parked_messages_are_listed_and_shown(folder: Path, say: Say) -> None:
    one, two, three = add(
        folder, ("orders.placed", {"cents": 5}, "7"), ("stock", b"\xff\x00", None), ("gone", None, "7")
    )
    park(folder, [one], "too large\x1b[2J: 2 MB")
    park(folder, [two, three], "no such topic")
    listed = "\n".join(say("parked", "list"))
    assert listed.endswith("\n3 parked messages")
    assert "\x1b" not in listed
    assert "orders.placed  key 7  version 1  attempts 1  too large\N{REPLACEMENT CHARACTER}[2J: 2 MB" in listed
    some = say("parked", "list", "--topic", "orders.*", "--reason", "TOO", "--since", "1h")
    assert [line.split()[0] for line in some] == [one, "1"]
    first, end = map(json.loads, say("parked", "list", "--json", "--limit", "1"))
    assert (first["id"], first["payload_bytes"], end) == (one, 11, {"shown": 1, "count": 3})
    assert say("parked", "list", "--limit", "1")[-1] == "1 message of 3; --limit shows more"
    shown = say("parked", "show", one)
    assert {"payload: 11 bytes", "content type: application/json", "attempts: 1"} <= set(shown)
    assert "cents" not in "".join(shown)
    assert record(say("parked", "show", one, "--payload", "--json"))["payload"] == '{"cents":5}'
    assert say("parked", "show", two, "--payload")[-1] == "/wA="
    assert "payload: none (a tombstone)" in say("parked", "show", three)


def test_they_are_retried_and_discarded(folder: Path, say: Say) -> None:
    *placed, other = add(folder, *[("orders", n, "7") for n in range(3)], ("stock", 1, None))
    park(folder, [*placed, other])
    (newer,) = add(folder, ("orders", "newer", "7"))
    assert say("parked", "retry", "--topic", "orders", "--dry-run") == [
        "would retry 3 messages: each goes to the end of its key with its next version, marked by the header"
        " fencepost-retried"
    ]
    limited = record(say("parked", "discard", "--all", "--limit", "2", "--dry-run", "--json"))
    assert limited == {"action": "discard", "messages": 2, "gone": 0, "dry_run": True}
    assert ids(folder) == ([newer], [*placed, other])
    assert say("parked", "retry", "--topic", "orders", "--yes") == ["retried 3 messages"]
    assert ids(folder) == ([newer, *placed], [other])
    gone = record(say("parked", "discard", "--id", other, "--yes", "--json"))
    assert gone == {"action": "discard", "messages": 1, "gone": 0, "dry_run": False}
    assert ids(folder) == ([newer, *placed], [])
    assert say("parked", "retry", "--all", "--yes") == ["retried 0 messages"]


def test_versions_are_kept_where_that_is_said(folder: Path, say: Say) -> None:
    park(folder, add(folder, ("orders", 1, "7"), ("orders", 2, "7")))
    say("parked", "retry", "--key", "7", "--keep-version", "--yes")
    with closing(sqlite3.connect(folder / "orders.db")) as connection:
        assert connection.execute("SELECT version FROM fencepost_outbox ORDER BY seq").fetchall() == [(1,), (2,)]
        assert connection.execute("SELECT version FROM fencepost_entity").fetchall() == [(2,)]


REDIS = """
[relay]
name = "clitest"
[database]
url = "{url}"
prefix = "{prefix}"
[broker]
url = "memory://parked"
"""
NOBODY = "00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("retry", "--yes"), "it is not said which messages to retry"),
        (("discard", "--all", "--topic", "orders", "--yes"), "--all beside a choice"),
        (("retry", "--id", "{one}", "--id", NOBODY, "--yes"), f"no message is parked with the id {NOBODY}"),
        (("discard", "--since", "tomorrow", "--yes"), "--since 'tomorrow'"),
        (("show", "nonsense"), "no message is parked with the id nonsense"),
    ],
)
def test_what_is_not_clear_is_refused_and_changes_nothing(
    folder: Path, say: Say, arguments: tuple[str, ...], said: str
) -> None:
    (one,) = add(folder, ("orders", 1, "7"))
    park(folder, [one])
    with pytest.raises(FixError, match=said):
        say("parked", *[argument.format(one=one) for argument in arguments])
    assert ids(folder) == ([], [one])


def test_without_anybody_to_be_asked_nothing_is_done(folder: Path) -> None:
    (one,) = add(folder, ("orders", 1, "7"))
    park(folder, [one])
    done = run("parked", "retry", "--all", cwd=folder)
    assert (done.returncode, "nobody is there to be asked whether to retry 1 message" in done.stderr) == (2, True)
    assert ids(folder) == ([], [one])


@pytest.mark.parametrize(("answer", "waiting"), [("n", 0), ("y", 1)])
def test_a_person_is_asked(folder: Path, answer: str, waiting: int) -> None:
    (one,) = add(folder, ("orders", 1, "7"))
    park(folder, [one])
    ours, theirs = pty.openpty()
    try:
        asked = subprocess.Popen(
            [*COMMAND, "parked", "retry", "--all"],
            cwd=folder,
            env=environment(),
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.write(ours, f"{answer}\n".encode())
        said, question = asked.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert asked.returncode == 0
    assert "retry 1 message? each goes to the end of its key" in question
    assert said == ("retried 1 message\n" if waiting else "nothing was changed\n")
    assert len(ids(folder)[0]) == waiting


def test_check_and_status_name_the_command(folder: Path, say: Say) -> None:
    park(folder, add(folder, ("orders", 1, "7")))
    assert "fencepost parked list" in "".join(say("check"))
    assert "parked: 1 (fencepost parked list)" in say("status")


def test_in_redis(redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def parked_there() -> tuple[str, list[str], list[str]]:
        async with outbox_place("redis", redis_url) as place:
            session = await place.session()
            one, two = await parking.park(place, session, message("k", b"\x00"), message(None))
            file = tmp_path / "redis.toml"
            file.write_text(REDIS.format(url=redis_url, prefix=place.options.prefix))
            ours = [("list",), ("retry", "--key", "k", "--yes"), ("discard", "--all", "--yes"), ("list", "--json")]
            said = [await asyncio.to_thread(here, file, *words) for words in ours]
            waiting = [row.id for row in await session.pending(Lane("clitest"), 10)]
            return "".join(said), waiting, [one.id, two.id]

    def here(file: Path, *words: str) -> str:
        program(pretty=False).main(["parked", *words, "--config", str(file)], standalone_mode=False)
        return capsys.readouterr().out

    said, waiting, (one, two) = asyncio.run(parked_there())
    assert said.count(one) == said.count(two) == 1
    assert said.endswith('retried 1 message\ndiscarded 1 message\n{"shown": 0, "count": 0}\n')
    assert waiting == [one]


def test_a_retry_that_is_killed_leaves_each_message_in_one_place(folder: Path, say: Say) -> None:
    """kill -9 in the middle of 2,000; the same command then does the rest."""
    added = add(folder, *[("orders", n, f"k{n % 50}") for n in range(2_000)])
    park(folder, added)
    with running("parked", "retry", "--all", "--yes", cwd=folder) as retrying:
        give_up = time.monotonic() + 60
        while len(ids(folder)[0]) < 700:
            assert time.monotonic() < give_up
            assert retrying.process.poll() is None, retrying.said()
        retrying.process.kill()
        retrying.process.wait()
    waiting, parked = ids(folder)
    assert 700 <= len(waiting) < 2_000, "it was killed too late"
    assert sorted([*waiting, *parked]) == sorted(added)
    assert record(say("parked", "retry", "--all", "--yes", "--json"))["messages"] == len(parked)
    waiting, parked = ids(folder)
    assert (sorted(waiting), parked) == (sorted(added), [])
    with closing(sqlite3.connect(folder / "orders.db")) as connection:
        rows = connection.execute("SELECT key, version FROM fencepost_outbox ORDER BY seq").fetchall()
    for key in {key for key, _ in rows}:
        assert [version for each, version in rows if each == key] == list(range(41, 81))
