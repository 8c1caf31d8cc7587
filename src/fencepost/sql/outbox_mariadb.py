"""The statements that add messages to an outbox in MariaDB or MySQL.

Nothing but LAST_INSERT_ID(number) tells, in the same statement, which version an upsert has drawn. Many messages are
written some at a time: neither has arrays, and a statement has an end (max_allowed_packet).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect

from fencepost.errors import ConfigurationError
from fencepost.sql.statements import Prepared, prepare
from fencepost.sql.tables import Tables

T = TypeVar("T")

_SIZES = (64, 16, 4, 1)
"""How many rows a statement has: a text for each."""
_BYTES_MAX = 1_000_000


class Chunks:
    """Statements for some rows at once, by their number, compiled when they are needed for the first time.

    A value's name ends with the number of its row, from 0.
    """

    def __init__(self, t: Tables, columns: Sequence[str], dialect: Dialect) -> None:
        self._tables, self._columns, self._dialect = t, columns, dialect
        self._compiled: dict[tuple[str, int], Prepared] = {}

    def raised(self, size: int) -> Prepared:
        """Takes topic, key and version (by how much) of entities, sorted."""
        return self._prepared("raised", size, lambda: _raised(self._tables.entity, size))

    def read(self, size: int) -> Prepared:
        """Takes topic and key; returns (topic, key, version)."""
        return self._prepared("read", size, lambda: _read(self._tables.entity, size))

    def insert(self, size: int) -> Prepared:
        """Takes messages."""
        return self._prepared("insert", size, lambda: _insert(self._tables.outbox, self._columns, size))

    def _prepared(self, name: str, size: int, form: Callable[[], Any]) -> Prepared:
        if (name, size) not in self._compiled:
            self._compiled[name, size] = prepare(form(), self._dialect)
        return self._compiled[name, size]


def forms(t: Tables, columns: Sequence[str], versions: str) -> dict[str, Any]:
    """One message, as statements of SQLAlchemy Core. Raises ConfigurationError for versions that cannot be had."""
    if versions == "position":
        raise ConfigurationError(
            'versions="position" on MariaDB or MySQL, where no lock both ends with the transaction and leaves no row',
            remedy='use versions="counter" (the default), which keeps one small row for each entity',
        )
    insert = sa.insert(t.outbox).values({name: _bind(t.outbox.c[name]) for name in columns})
    one = {"keyless": insert, "drawn": insert, "given": insert}
    return one | {"entity_drawn": _entity(t, given=False), "entity_given": _entity(t, given=True)}


def chunked(items: Sequence[T], sizes_bytes: Sequence[int] | None = None) -> Iterator[Sequence[T]]:
    """Cut into lengths for which there are statements, with at most a megabyte in each that has more than one."""
    start = 0
    while start < len(items):
        left = len(items) - start
        fitting = [size for size in _SIZES if size <= left]
        size = next((s for s in fitting if sizes_bytes is None or sum(sizes_bytes[start : start + s]) <= _BYTES_MAX), 1)
        yield items[start : start + size]
        start += size


def numbered(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The values of some rows, as a statement of ``Chunks`` takes them."""
    return {f"{name}_{number}": value for number, row in enumerate(rows) for name, value in row.items()}


def _bind(column: Any, number: int | None = None) -> sa.BindParameter[Any]:
    return sa.bindparam(column.name if number is None else f"{column.name}_{number}", type_=column.type)


def _entity(t: Tables, *, given: bool) -> Any:
    entity, told = t.entity, sa.func.last_insert_id
    version = _bind(entity.c.version)
    first = version if given else sa.literal_column("1")
    upsert = mysql.insert(entity).values(topic=_bind(entity.c.topic), key=_bind(entity.c.key), version=told(first))
    if not given:
        return upsert.on_duplicate_key_update(version=told(entity.c.version + first))
    unchanged = entity.c.version + told(sa.literal_column("0"))
    return upsert.on_duplicate_key_update(version=sa.case((entity.c.version < version, told(version)), else_=unchanged))


def _raised(entity: sa.Table, size: int) -> Any:
    rows = [{name: _bind(entity.c[name], number) for name in ("topic", "key", "version")} for number in range(size)]
    more = sa.func.values(entity.c.version)  # what would have been inserted
    return mysql.insert(entity).values(rows).on_duplicate_key_update(version=entity.c.version + more)


def _read(entity: sa.Table, size: int) -> Any:
    c = entity.c
    these = [sa.and_(c.topic == _bind(c.topic, number), c.key == _bind(c.key, number)) for number in range(size)]
    query = sa.select(c.topic, c.key, c.version).where(sa.or_(*these))
    return query.with_hint(entity, "FORCE INDEX (PRIMARY)")


def _insert(outbox: sa.Table, columns: Sequence[str], size: int) -> Any:
    return sa.insert(outbox).values([{n: _bind(outbox.c[n], number) for n in columns} for number in range(size)])
