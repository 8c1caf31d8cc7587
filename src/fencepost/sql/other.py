"""Oracle, SQL Server and CockroachDB: what is known of each, which none of the statements for it were ever sent to.

Every statement is compiled for each of them and looked at by the tests; no server of any of them was there to run them.
So whoever uses one is told so, and how the rules of this project are run on a server of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.dialects.mssql.aioodbc import MSDialectAsync_aioodbc
from sqlalchemy.dialects.oracle.oracledb import OracleDialectAsync_oracledb
from sqlalchemy.engine import Dialect

from fencepost.sql.cockroachdb import CockroachDialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One of them. ``url`` is an example of an address, ``driver`` how SQLAlchemy calls what a relay talks through."""

    called: str
    url: str
    driver: str
    extra: str
    make: type[Dialect]
    as_connected: Mapping[str, Any] = field(default_factory=dict)
    """What SQLAlchemy finds out of a server, as of the oldest that will do: without it, it writes for older ones."""
    settings: Sequence[str] = ()
    """What is said to each new connection; ``{timeout_ms}`` is the deadline of an answer."""
    limits: Sequence[str] = ()
    """What is not given there, one line each."""


_LEASE = "a relay that was killed is replaced only when its lease has ended: no session can be seen to be gone"
_LOOKS = "a new message is noticed by looking, up to a second late: nobody is woken by a commit"
_POSITION = 'versions="position" is refused: no lock is known to end with the transaction and leave no row'

KINDS: Mapping[str, Kind] = {
    "cockroachdb": Kind(
        called="CockroachDB",
        url="cockroachdb://user@host:26257/database",
        driver="fencepost+cockroachdb",
        extra="cockroachdb",
        make=CockroachDialect,
        settings=(
            "SET timezone = 'UTC'",
            "SET statement_timeout = {timeout_ms}",
            "SET idle_in_transaction_session_timeout = {timeout_ms}",
        ),
        limits=(
            _POSITION,
            _LEASE,
            _LOOKS,
            "the application must repeat a transaction that ends with SQLSTATE 40001, as always there",
        ),
    ),
    "mssql": Kind(
        called="SQL Server",
        url="mssql://user@host:1433/database?driver=ODBC+Driver+18+for+SQL+Server",
        driver="mssql+aioodbc",
        extra="mssql",
        make=MSDialectAsync_aioodbc,
        as_connected={"_supports_offset_fetch": True, "_supports_nvarchar_max": True, "deprecate_large_types": True},
        settings=("SET LOCK_TIMEOUT {timeout_ms}",),
        limits=(
            _POSITION,
            _LEASE,
            _LOOKS,
        ),
    ),
    "oracle": Kind(
        called="Oracle",
        url="oracle://user@host:1521/?service_name=name",
        driver="oracle+oracledb_async",
        extra="oracle",
        make=OracleDialectAsync_oracledb,
        settings=("ALTER SESSION SET NLS_COMP = BINARY NLS_SORT = BINARY",),
        limits=(
            _POSITION,
            _LEASE,
            _LOOKS,
            "an empty payload is refused: Oracle would keep it as none at all, which is a tombstone",
        ),
    ),
}
"""By SQLAlchemy's word for each."""

OTHERS = frozenset(KINDS)
UNPARTITIONED = frozenset({"mssql", "oracle"})
"""Those without PostgreSQL's ways: indexes of some rows only, ON CONFLICT, RETURNING."""

_RULES = "run the rules on a server of yours first: docs/other-sql.md"


def compiled_not_run(name: str) -> str:
    """What is to be said of each of them, in one line."""
    called = KINDS[name].called
    return f"compiled, not run: no statement of this release was ever sent to a server of {called}; {_RULES}"


def dialect_of(name: str) -> Dialect:
    """The dialect as it is when connected to a server, of which none is needed."""
    kind = KINDS[name]
    styles = {"mssql": "qmark", "oracle": "named"}
    made = kind.make(paramstyle=styles[name]) if name in styles else kind.make()  # type: ignore[call-arg]
    for attribute, value in kind.as_connected.items():
        setattr(made, attribute, value)
    reserve_words(made)
    return made


def reserve_words(dialect: Dialect) -> None:
    """Have quoted what Oracle reserves and SQLAlchemy does not know of."""
    if dialect.name == "oracle":
        known: Any = dialect.identifier_preparer
        known.reserved_words = {*known.reserved_words, "session"}
