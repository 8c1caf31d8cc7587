"""`fencepost schema`: the tables of the outbox, to read or to create."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol, runtime_checkable

from fencepost import app
from fencepost.cli import output
from fencepost.cli.settings import load_config


@runtime_checkable
class Revised(Protocol):
    """Tables that are numbered, so that a later release can say how they change."""

    revision: int


def show(file: Path | None, *, as_json: bool) -> None:
    """Print the DDL, without connecting to anything."""
    schema = app.schema(load_config(file))
    statements = [statement.strip().rstrip(";") for statement in schema.statements()]
    if as_json:
        output.json_line({"statements": statements, **_revision(schema)})
        return
    if isinstance(schema, Revised):
        output.line(f"-- The tables of Fencepost, revision {schema.revision}.\n")
    for statement in statements:
        output.line(f"{statement};\n")


def apply(file: Path | None, *, as_json: bool) -> None:
    """Create what is missing."""
    schema = app.schema(load_config(file))
    created = list(asyncio.run(schema.apply()))
    if as_json:
        output.json_line({"created": created, **_revision(schema)})
    else:
        output.line(f"created {', '.join(created)}" if created else "nothing to do: every table exists")


def _revision(schema: object) -> dict[str, int]:
    return {"revision": schema.revision} if isinstance(schema, Revised) else {}
