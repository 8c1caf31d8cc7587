"""`fencepost schema`: the tables of the outbox, to read or to create."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol, runtime_checkable

from fencepost import app
from fencepost.cli import output
from fencepost.cli.settings import load_config
from fencepost.config import Config
from fencepost.plugins import name_of
from fencepost.ports import Schema

_END_OF_BLOCK = "\n/"  # after a block of Oracle's, whose own lines end with semicolons


@runtime_checkable
class Revised(Protocol):
    """Tables that are numbered, so that a later release can say how they change."""

    revision: int


def show(file: Path | None, *, as_json: bool) -> None:
    """Print the DDL, without connecting to anything."""
    config = load_config(file)
    schema, leases = app.schema(config), app.lease_schema(config)
    if as_json:
        elsewhere = {"lease_statements": _statements(leases)} if leases else {}
        output.json_line({"statements": _statements(schema), **elsewhere, **_revision(schema)})
        return
    if not schema.statements():
        output.line(f"-- Nothing to do: {_no_tables(config)}.")
    if isinstance(schema, Revised):
        output.line(f"-- The tables of Fencepost, revision {schema.revision}.\n")
    _print(schema)
    if leases is not None and leases.statements():
        output.line("-- In the database of [lease] url:\n")
        _print(leases)


def _statements(schema: Schema) -> list[str]:
    return [statement.strip().rstrip(";") for statement in schema.statements()]


def _print(schema: Schema) -> None:
    for statement in _statements(schema):
        output.line(f"{statement};{_END_OF_BLOCK if statement.startswith('BEGIN') else ''}\n")


def apply(file: Path | None, *, as_json: bool) -> None:
    """Create what is missing, where leases are kept elsewhere there too."""
    config = load_config(file)
    schema, leases = app.schema(config), app.lease_schema(config)
    created, elsewhere = asyncio.run(_applied(schema, leases))
    if as_json:
        output.json_line({"created": created, **({"lease_created": elsewhere} if leases else {}), **_revision(schema)})
        return
    if created or not elsewhere:
        output.line(f"created {', '.join(created)}" if created else _nothing_to_do(config, schema))
    if elsewhere:
        output.line(f"created in the database of [lease] url {', '.join(elsewhere)}")


def _nothing_to_do(config: Config, schema: Schema) -> str:
    return f"nothing to do: {'every table exists' if schema.statements() else _no_tables(config)}"


def _no_tables(config: Config) -> str:
    return f"{name_of('database', config.database.url)} needs no tables"


async def _applied(schema: Schema, leases: Schema | None) -> tuple[list[str], list[str]]:
    return list(await schema.apply()), [] if leases is None else list(await leases.apply())


def _revision(schema: object) -> dict[str, int]:
    return {"revision": schema.revision} if isinstance(schema, Revised) else {}
