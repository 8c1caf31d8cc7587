"""`fencepost purge`: what it counts, what it removes, and what it refuses."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fencepost import app
from fencepost.cli.lengths import seconds_of
from fencepost.cli.purge import purge
from fencepost.config import load
from fencepost.errors import ConfigurationError
from tests.cli.process import run_at_once

CONFIGURATION = """
[relay]
name = "orders"
[database]
url = "sqlite:///orders.db"
{settle}
[broker]
url = "memory://purge"
"""
ROW = (
    "INSERT INTO fencepost_outbox (id, topic, type, slot, content_type, occurred_at, state, settled_at)"
    " VALUES (hex(randomblob(16)), 't', 'x', 0, 'a/b', '2026-01-01 00:00:00.000000', ?, ?)"
)


def states(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "orders.db")) as connection:
        return [state for (state,) in connection.execute("SELECT state FROM fencepost_outbox ORDER BY seq")]


async def test_old_settled_rows_are_counted_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C7: what waits stays, whatever its age."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fencepost.toml").write_text(CONFIGURATION.format(settle='settle = "mark"\nretention_s = 86400'))
    await app.schema(load(None, {})).apply()
    with closing(sqlite3.connect("orders.db")) as connection, connection:
        rows = [(0, None), (1, None), *[(3, "2026-01-01 00:00:00.000000")] * 5, (3, "2999-01-01 00:00:00.000000")]
        connection.executemany(ROW, rows)
    dry, refused = run_at_once(("purge", "--dry-run"), ("purge", "--older-than", "soon"), cwd=tmp_path)
    assert dry.stdout == "would purge 5 rows settled more than 24 h ago\n"
    assert (refused.returncode, "7d, 12h, 90s" in refused.stderr) == (2, True)
    assert len(states(tmp_path)) == 8
    (done,) = run_at_once(("purge", "--batch", "2", "--json"), cwd=tmp_path)
    assert json.loads(done.stdout) == {"rows": 5, "older_than_s": 86400.0, "dry_run": False}
    assert states(tmp_path) == [0, 1, 3]


async def test_progress_is_told_after_each_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fencepost.toml").write_text(CONFIGURATION.format(settle='settle = "mark"'))
    config = load(None, {})
    await app.schema(config).apply()
    with closing(sqlite3.connect("orders.db")) as connection, connection:
        connection.executemany(ROW, [(3, "2026-01-01 00:00:00.000000")] * 5)
    told: list[int] = []
    assert await app.purge(config, 60.0, batch=2, progress=told.append) == 5
    assert told == [2, 4, 5]
    assert await app.purgeable(config, 60.0) == 0


@pytest.mark.parametrize(
    ("settle", "older_than", "said"),
    [
        ("", "1d", "nothing to purge"),
        ('settle = "mark"', None, r"--older-than 7d, or set \[database\] retention_s"),
        ("retention_s = 5", None, "settled rows are deleted at once"),
        ('settle = "keep"', None, "known are delete, mark"),
    ],
)
def test_what_cannot_be_purged_is_refused(tmp_path: Path, settle: str, older_than: str | None, said: str) -> None:
    file = tmp_path / "fencepost.toml"
    file.write_text(CONFIGURATION.format(settle=settle))
    with pytest.raises(ConfigurationError, match=said):
        purge(file, older_than=older_than, batch=1, dry_run=False, as_json=False)


async def test_a_database_that_deletes_at_once_does_not_mark(tmp_path: Path) -> None:
    text = CONFIGURATION.format(settle='settle = "mark"').replace("sqlite:///orders.db", "memory://orders")
    (tmp_path / "fencepost.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=r'settle = "mark" is not possible in memory'):
        app.source(load(tmp_path / "fencepost.toml", {}))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("90s", 90.0), ("1.5m", 90.0), ("12h", 43_200.0), ("7d", 604_800.0)]
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "-1d", "1w", "7 days", "1e3"])
def test_other_lengths_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--older-than"):
        seconds_of(text)
