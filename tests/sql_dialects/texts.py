"""Every statement for Oracle, SQL Server and CockroachDB, as it is sent to a server."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from sqlalchemy.engine import Dialect

from fencepost.databases.other_sql.checks import SERVER
from fencepost.sql import positions_other, schema
from fencepost.sql.lease import LeaseStatements
from fencepost.sql.other import KINDS, UNPARTITIONED, dialect_of
from fencepost.sql.outbox import add_statements
from fencepost.sql.parked import parked_statements
from fencepost.sql.parked_pages import ParkedPages
from fencepost.sql.source_other import RelayStatements
from fencepost.sql.statements import Prepared, prepare
from fencepost.sql.tables import Tables, tables

NAMES = sorted(KINDS)
GRAMMAR = {"cockroachdb": "postgres", "mssql": "tsql", "oracle": "oracle"}
"""What sqlglot calls the dialects; it has none of CockroachDB's own."""

_NEW = re.compile(r"EXECUTE IMMEDIATE '(?P<text>.*)';\nEXCEPTION", re.DOTALL)


def compiled(statement: Any, dialect: Dialect) -> str:
    """The text, in one line."""
    return one_line(prepare(statement, dialect).text)


def one_line(text: str) -> str:
    return " ".join(text.split())


@cache
def adding(name: str) -> dict[str, str]:
    """What an application sends."""
    made = add_statements(dialect_of(name), schema=None, prefix="fencepost_", versions="counter")
    parts = {f"add {field}": getattr(made, field) for field in ("keyless", "drawn", "given")}
    parts |= {f"add {field}": getattr(made, field) for field in ("entity_drawn", "entity_given")}
    if made.counting is not None:
        parts |= {f"add {field}": getattr(made.counting, field) for field in ("lock", "first", "put")}
    return {what: one_line(found.text) for what, found in parts.items() if isinstance(found, Prepared)}


def relaying(name: str, t: Tables) -> dict[str, str]:
    """What a relay sends."""
    dialect = dialect_of(name)
    texts = {f"relay {what}": compiled(said, dialect) for what, said in RelayStatements(t, name).all().items()}
    drawing = positions_other.draw(t, dialect)
    if drawing is not None:
        return texts | {"relay draw": compiled(drawing, dialect)}
    last, at = positions_other.last_drawn(t, dialect), positions_other.at(t)
    return texts | {"relay last drawn": compiled(last, dialect), "relay at": compiled(at, dialect)}


def parking(name: str) -> dict[str, str]:
    """What an operator sends, who looks after parked messages."""
    dialect = dialect_of(name)
    made = parked_statements(dialect, schema=None, prefix="fencepost_", with_seq=True)
    parts = {field: getattr(made, field) for field in ("claim", "draw", "copy_back", "find", "remove")}
    pages = ParkedPages(dialect, None, "fencepost_")
    shapes = {"page": ("topic", "key", "since", "before", "after_seq", "after_id"), "count": ("topic", "key")}
    parts |= {kind: pages.statement(kind, *names) for kind, names in shapes.items()}
    parts["payload"] = pages.statement("payload", "id", "seq")
    return {f"parked {what}": one_line(said.text) for what, said in parts.items() if isinstance(said, Prepared)}


def leading(name: str, t: Tables) -> dict[str, str]:
    """What a lease store sends."""
    say = LeaseStatements(t.lease, name)
    parts = {what: getattr(say, what) for what in ("read", "lock", "seed", "take", "renew", "release")}
    return {f"lease {what}": compiled(said, dialect_of(name)) for what, said in parts.items()}


def making(name: str, t: Tables) -> dict[str, str]:
    """The DDL, without what makes it run twice."""
    texts = schema.statements(t, dialect_of(name))
    return {f"ddl {number}": _bare(text) for number, text in enumerate(texts)}


def _bare(text: str) -> str:
    block = _NEW.search(text)
    if block is not None:
        return block["text"].replace("''", "'")
    return text.partition("\n")[2] if text.startswith("IF ") else text


@cache
def everything(name: str) -> dict[str, str]:
    """All of it but for the settings of a session."""
    t = tables()
    found = {**adding(name), **relaying(name, t), **parking(name), **leading(name, t), **making(name, t)}
    return found | ({"server": SERVER[name]} if name in SERVER else {})


def partless(name: str) -> bool:
    """Whether it lacks PostgreSQL's ways."""
    return name in UNPARTITIONED
