"""Whether a database takes two states for the same: the collation of the column decides, and only it knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy.engine import Dialect

from fencepost.existing import STATES, ExistingTable
from fencepost.sql.existing.columns import Described
from fencepost.sql.tables import MARIADB


def question(table: ExistingTable, found: Described, dialect: Dialect, schema: str | None) -> str:
    """A statement whose rows are pairs of texts that are the same there; "" where there is nothing to ask.

    It asks for the values that the configuration names, and for those that wait with their letters' case turned.
    """
    column = found.columns.get(table.state or "")
    if column is None or (column.kind != "text" and column.declared != "citext"):
        return ""
    quote = dialect.identifier_preparer.quote
    name = f"{quote(schema)}.{quote(table.table)}" if schema else quote(table.table)
    named = [value for key in STATES if (value := getattr(table, key)) is not None]
    texts = dict.fromkeys([*named, *(value.swapcase() for value in table.waiting)])
    selected = [f"SELECT {_literal(text, dialect)}" for text in texts]
    # Texts beside a column have its collation.
    rows = " UNION ALL ".join([f"SELECT {quote(column.name)} AS s FROM {name} WHERE 1 = 0", *selected])  # noqa: S608
    return f"SELECT a.s, b.s FROM ({rows}) AS a JOIN ({rows}) AS b ON a.s = b.s"  # noqa: S608 - names are quoted


def pairs(rows: Iterable[Sequence[object]]) -> frozenset[tuple[str, str]]:
    """The answer: pairs of texts that are not written alike, each in both orders."""
    found = [(str(one).rstrip(" "), str(other).rstrip(" ")) for one, other in rows]
    return frozenset(pair for pair in found if pair[0] != pair[1])


def _literal(text: str, dialect: Dialect) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped.replace(chr(92), chr(92) * 2) if dialect.name in MARIADB else escaped}'"
