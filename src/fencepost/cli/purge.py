"""`fencepost purge`: removes settled rows that have been kept for long enough."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fencepost import app
from fencepost.cli import output
from fencepost.cli.lengths import seconds_of
from fencepost.cli.settings import load_config
from fencepost.config import Config
from fencepost.errors import ConfigurationError
from fencepost.words import counted


def purge(file: Path | None, *, older_than: str | None, batch: int, dry_run: bool, as_json: bool) -> None:
    """Remove, or with ``dry_run`` count, what was settled long enough ago."""
    config = load_config(file)
    older_than_s = _older_than_s(older_than, config)
    if dry_run:
        rows = asyncio.run(app.purgeable(config, older_than_s))
    else:
        so_far = output.SoFar("purged", "row", shown=not as_json)
        rows = asyncio.run(app.purge(config, older_than_s, batch=batch, progress=so_far))
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
