"""The statements of a lease store, on the database's own clock: its ``now`` judges expiry, never the caller's.

Each is short, and none leaves a snapshot behind. A row is made once and stays: its token only grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine import Row
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ColumnElement, FunctionElement

from fencepost.sql.other import OTHERS, UNPARTITIONED
from fencepost.sql.outbox_other import locking
from fencepost.sql.tables import MARIADB, UtcDateTime

_ONE: Any = sa.literal_column("1")


class later(FunctionElement[datetime]):  # noqa: N801 - reads as an SQL function
    """The database's now plus a number of seconds."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(later, "postgresql")
def _later_postgresql(element: later, compiler: SQLCompiler, **options: Any) -> str:
    # now() would be the begin of the transaction, which may be long before a lock was had
    return f"(clock_timestamp() + make_interval(secs => {_only(element, compiler, options)}))"


@compiles(later, "sqlite")
def _later_sqlite(element: later, compiler: SQLCompiler, **options: Any) -> str:
    seconds = f"printf('%+.3f seconds', {_only(element, compiler, options)})"
    return f"(strftime('%Y-%m-%d %H:%M:%f', 'now', {seconds}) || '000')"  # as UtcDateTime writes it


@compiles(later, *MARIADB)
def _later_mariadb(element: later, compiler: SQLCompiler, **options: Any) -> str:
    microseconds = f"CAST({_only(element, compiler, options)} * 1000000 AS SIGNED)"
    return f"(UTC_TIMESTAMP(6) + INTERVAL {microseconds} MICROSECOND)"


@compiles(later, "cockroachdb")
def _later_cockroachdb(element: later, compiler: SQLCompiler, **options: Any) -> str:
    return f"(clock_timestamp() + {_only(element, compiler, options)} * INTERVAL '1 second')"


@compiles(later, "oracle")
def _later_oracle(element: later, compiler: SQLCompiler, **options: Any) -> str:
    return f"(SYS_EXTRACT_UTC(SYSTIMESTAMP) + NUMTODSINTERVAL({_only(element, compiler, options)}, 'SECOND'))"


@compiles(later, "mssql")
def _later_mssql(element: later, compiler: SQLCompiler, **options: Any) -> str:
    milliseconds = f"CAST({_only(element, compiler, options)} * 1000 AS INT)"
    return f"DATEADD(MILLISECOND, {milliseconds}, SYSUTCDATETIME())"


class seconds_until(FunctionElement[float]):  # noqa: N801 - reads as an SQL function
    """Seconds from the database's now to a column's time; below 0 where it has passed."""

    type = sa.Float()
    inherit_cache = True


@compiles(seconds_until, "postgresql")
def _until_postgresql(element: seconds_until, compiler: SQLCompiler, **options: Any) -> str:
    return f"extract(epoch FROM {_only(element, compiler, options)} - clock_timestamp())::float8"


@compiles(seconds_until, "sqlite")
def _until_sqlite(element: seconds_until, compiler: SQLCompiler, **options: Any) -> str:
    return f"((julianday({_only(element, compiler, options)}) - julianday('now')) * 86400.0)"


@compiles(seconds_until, *MARIADB)
def _until_mariadb(element: seconds_until, compiler: SQLCompiler, **options: Any) -> str:
    return f"(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), {_only(element, compiler, options)}) / 1e6)"


@compiles(seconds_until, "cockroachdb")
def _until_cockroachdb(element: seconds_until, compiler: SQLCompiler, **options: Any) -> str:
    return _until_postgresql(element, compiler, **options)


@compiles(seconds_until, "oracle")
def _until_oracle(element: seconds_until, compiler: SQLCompiler, **options: Any) -> str:
    interval = f"({_only(element, compiler, options)} - SYS_EXTRACT_UTC(SYSTIMESTAMP))"
    parts = (("DAY", 86400), ("HOUR", 3600), ("MINUTE", 60), ("SECOND", 1))
    return f"({' + '.join(f'EXTRACT({part} FROM {interval}) * {seconds}' for part, seconds in parts)})"


@compiles(seconds_until, "mssql")
def _until_mssql(element: seconds_until, compiler: SQLCompiler, **options: Any) -> str:
    return f"(DATEDIFF_BIG(MICROSECOND, SYSUTCDATETIME(), {_only(element, compiler, options)}) / 1e6)"


def _only(element: FunctionElement[Any], compiler: SQLCompiler, options: dict[str, Any]) -> str:
    (argument,) = element.clauses
    return compiler.process(argument, **options)


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease as the database sees it. ``remaining_s`` is at most 0 where it has ended.

    ``session``: its owner holds a lock that ends with its session. ``gone``: that lock was found free.
    """

    owner: str | None
    token: int
    session: bool
    remaining_s: float
    held_s: float
    gone: bool = False

    @classmethod
    def of(cls, row: Row[Any]) -> LeaseRow:
        """From a row of ``read`` or ``lock``."""
        return cls(
            row.owner,
            row.token,
            bool(row.session),
            row.remaining_s or 0.0,
            max(-(row.acquired_s or 0.0), 0.0),
            bool(row.gone),
        )

    @property
    def free(self) -> bool:
        """Whether anybody may take it."""
        return self.owner is None or self.remaining_s <= 0


class LeaseStatements:
    """All that a lease store says to its table. Parameters are called like the columns, with a line after it."""

    def __init__(self, table: sa.Table, dialect: str) -> None:
        self.table = table
        self._provable = dialect not in OTHERS
        nothing = sa.false() if self._provable else sa.bindparam("nothing_", False, type_=table.c.session.type)
        name, owner, token = (sa.bindparam(f"{p}_", type_=table.c[p].type) for p in ("name", "owner", "token"))
        self._named = table.c.name == name
        exact = sa.and_(self._named, table.c.owner == owner, table.c.token == token)
        until = later(sa.bindparam("ttl_s", type_=sa.Float()))
        session = sa.bindparam("session_", type_=table.c.session.type)

        self.read = self.probe(sa.false())
        self.lock = locking(self.read, table, skip=True)
        """No row where there is none, or where somebody else is at it."""
        self.seed = _first_row(dialect, table, name=name, token=0, session=nothing)
        """The first row of a name. One of many that come at once has an effect; the others have none, and no error."""
        self.take = (
            sa.update(table)
            .where(self._named, table.c.token == token)
            .values(owner=owner, token=table.c.token + 1, acquired_at=now(), expires_at=until, session=session)
        )
        self.renew = sa.update(table).where(exact).values(expires_at=until, session=session)
        self.release = sa.update(table).where(exact).values(owner=None, expires_at=now(), session=nothing)

    def probe(self, gone: ColumnElement[bool]) -> sa.Select[Any]:
        """Read the row; ``gone`` is asked only where the owner said that it holds a lock."""
        c = self.table.c
        asked = sa.case((sa.and_(c.session, c.owner.is_not(None)), gone), else_=sa.false())
        shown: Any = asked if self._provable else sa.literal_column("0")
        remaining = seconds_until(c.expires_at).label("remaining_s")
        acquired = seconds_until(c.acquired_at).label("acquired_s")
        return sa.select(c.owner, c.token, c.session, remaining, acquired, shown.label("gone")).where(self._named)


def _first_row(dialect: str, table: sa.Table, **values: Any) -> Any:
    """Insert a row; do nothing where it is there."""
    if dialect in MARIADB:
        insert = mysql.insert(table).values(values)
        return insert.on_duplicate_key_update(name=table.c.name)  # IGNORE would ignore every other error too
    if dialect in UNPARTITIONED:
        return _first_row_unless_there(table, values)
    make: Any = {"cockroachdb": postgresql.insert, "postgresql": postgresql.insert, "sqlite": sqlite.insert}[dialect]
    return make(table).values(values).on_conflict_do_nothing()


def _first_row_unless_there(table: sa.Table, values: dict[str, Any]) -> Any:
    """Oracle leaves out what is there, where a hint tells it to; SQL Server locks the place while it looks."""
    hint = f"/*+ IGNORE_ROW_ON_DUPKEY_INDEX({table.name} (name)) */"
    there = sa.select(_ONE).select_from(table).where(table.c.name == values["name"])
    there = there.with_hint(table, "WITH (UPDLOCK, HOLDLOCK)", "mssql")
    rows = sa.select(*[sa.cast(value, table.c[name].type) for name, value in values.items()]).where(~there.exists())
    insert = sa.insert(table).from_select(list(values), rows, include_defaults=False)
    return insert.prefix_with(hint, dialect="oracle")


def now() -> later:
    """The database's now."""
    return later(sa.literal_column("0.0", sa.Float()))
