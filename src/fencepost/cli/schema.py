"""`fencepost schema`: the tables of the outbox, to read or to create."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fencepost import app
from fencepost.cli import output
from fencepost.cli.settings import load_config


def show(file: Path | None, *, as_json: bool) -> None:
    """Print the DDL, without connecting to anything."""
    statements = [statement.strip().rstrip(";") for statement in app.schema(load_config(file)).statements()]
    if as_json:
        output.json_line({"statements": statements})
        return
    for statement in statements:
        output.line(f"{statement};\n")


def apply(file: Path | None, *, as_json: bool) -> None:
    """Create what is missing."""
    created = list(asyncio.run(app.schema(load_config(file)).apply()))
    if as_json:
        output.json_line({"created": created})
    else:
        output.line(f"created {', '.join(created)}" if created else "nothing to do: every table exists")
