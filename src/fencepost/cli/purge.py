"""`fencepost purge`: removes settled rows that have been kept for long enough."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fencepost import app
from fencepost.cli import output
from fencepost.cli.lengths import seconds_of
from fencepost.cli.settings import load_config
from fencepost.clock import SYSTEM_CLOCK
from fencepost.config import Config
from fencepost.errors import ConfigurationError
from fencepost.words import counted

_PROGRESS_EVERY_S = 2.0


def purge(file: Path | None, *, older_than: str | None, batch: int, dry_run: bool, as_json: bool) -> None:
    """Remove, or with ``dry_run`` count, what was settled long enough ago."""
    config = load_config(file)
    older_than_s = _older_than_s(older_than, config)
    if dry_run:
        rows = asyncio.run(app.purgeable(config, older_than_s))
    else:
        progress = _Progress(shown=not as_json)
        rows = asyncio.run(app.purge(config, older_than_s, batch=batch, progress=progress))
    if as_json:
        output.json_line({"rows": rows, "older_than_s": older_than_s, "dry_run": dry_run})
        return
    what = counted(rows, "row")
    age = output.seconds(older_than_s)
    output.line(f"would purge {what} settled more than {age} ago" if dry_run else f"purged {what}")


def _older_than_s(given: str | None, config: Config) -> float:
    if given is not None:
        return seconds_of(given)
    if config.database.settle != "mark":
        raise ConfigurationError(
            'nothing is kept once it is published: [database] settle is not "mark"',
            remedy='there is nothing to purge; to keep what is published, set settle = "mark" and run'
            " `fencepost schema apply`",
        )
    if config.database.retention_s is None:
        raise ConfigurationError(
            "it is not said how old a settled row must be", remedy="pass --older-than 7d, or set [database] retention_s"
        )
    return config.database.retention_s


class _Progress:
    """A line now and then."""

    def __init__(self, *, shown: bool) -> None:
        self._shown, self._told_s = shown, SYSTEM_CLOCK.monotonic()

    def __call__(self, rows: int) -> None:
        now = SYSTEM_CLOCK.monotonic()
        if self._shown and now - self._told_s >= _PROGRESS_EVERY_S:
            self._told_s = now
            output.line(f"purged {counted(rows, 'row')} so far")
