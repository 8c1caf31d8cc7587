"""SQLAlchemy: connections, and sessions, where a message takes part in the unit of work like any mapped object.

How a session does it: for each message a private marker is added to the session. The marker is mapped to a select
without a table, so a flush carries it along and writes nothing for it, while everything else about it (autoflush,
roll-back to a savepoint, expunge) is what the session does to new objects. When the business rows of a flush were
written, still inside it, the messages of its markers are written. So locks are taken in one order: business rows first,
then entities, sorted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import count, groupby
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event, orm
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.orm import Session, UOWTransaction, scoped_session

from fencepost.errors import ConfigurationError, NoTransaction
from fencepost.flows import run
from fencepost.message import Message
from fencepost.sql.outbox import drawn_rows
from fencepost.sql.tables import MARIADB
from fencepost.sql.transaction import Awaiting, Blocking, Call, Joined, Rows, UnitOfWork, Writer

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

_USED = "fencepost"  # in Session.info: this session has had a message


def join(tx: object) -> Joined | None:
    """The connection's transaction (begun by itself where none is open yet), or the session's unit of work."""
    if isinstance(tx, scoped_session):
        tx = tx()
    if isinstance(tx, sa.Connection):
        _check(tx)
        return Blocking(tx.dialect, partial(_execute, tx))
    if isinstance(tx, Session):
        return _unit_of_work(tx, asynchronous=False)
    # Importing it needs a library that blocking programs do without; who has an object of it has imported it.
    return _join_awaited(tx) if "sqlalchemy.ext.asyncio" in sys.modules else None


def _join_awaited(tx: object) -> Joined | None:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    if isinstance(tx, async_scoped_session):
        tx = tx()
    if isinstance(tx, AsyncSession):
        return _unit_of_work(tx.sync_session, asynchronous=True)
    if not isinstance(tx, AsyncConnection):
        return None
    if tx.sync_connection is None:
        raise NoTransaction(
            "the AsyncConnection is not started", remedy="add inside `async with engine.begin() as connection:`"
        )
    _check(tx.sync_connection)
    return Awaiting(tx.dialect, partial(_execute_async, tx))


# ---------------------------------------------------------------------------------------------------------- connections


def _check(connection: sa.Connection) -> None:
    """Raise NoTransaction where the driver's connection commits each statement by itself."""
    raw: Any = connection.connection
    if connection.dialect.name == "sqlite":
        own: Any = raw.driver_connection
        alone = not own.in_transaction and (own.isolation_level is None or getattr(own, "autocommit", -1) is True)
    elif connection.dialect.name in MARIADB:
        alone = bool(raw.dbapi_connection.get_autocommit())
    else:
        told: Any = raw.dbapi_connection.autocommit
        alone = bool(raw.dbapi_connection.autocommit_state if callable(told) else told)  # pymssql's is a method
    if alone:
        raise NoTransaction(
            "the SQLAlchemy connection is in AUTOCOMMIT mode", remedy="use one with a real isolation level"
        )


def _execute(connection: sa.Connection, call: Call) -> Rows:
    statement = call.statement
    values = tuple(statement.row(call.values)) if statement.positional else statement.mapping(call.values)
    return _rows(connection.exec_driver_sql(statement.text, values))


async def _execute_async(connection: AsyncConnection, call: Call) -> Rows:
    statement = call.statement
    values = tuple(statement.row(call.values)) if statement.positional else statement.mapping(call.values)
    return _rows(await connection.exec_driver_sql(statement.text, values))


def _rows(result: sa.CursorResult[Any]) -> Rows:
    return result.fetchall() if result.returns_rows else drawn_rows(result.lastrowid)


# ------------------------------------------------------------------------------------------------------------- sessions


class _Marker:
    """A message that takes part in a session's unit of work. ``number`` is its identity, and the order of adding."""

    def __init__(self, number: int, writer: Writer, message: Message) -> None:
        self.number = number
        self.writer = writer
        self.message = message
        self.written = False


_NOWHERE = sa.select(sa.literal(0).label("number")).subquery("fencepost_marker")
_MAPPER = orm.registry().map_imperatively(_Marker, _NOWHERE, primary_key=[_NOWHERE.c.number])
_NUMBERS = count()


def _unit_of_work(session: Session, *, asynchronous: bool) -> UnitOfWork:
    try:
        bind = session.get_bind(_MAPPER)
    except UnboundExecutionError as error:
        raise ConfigurationError(
            "the session does not say which database a message goes to",
            remedy="give it a bind, or add to session.connection(...) instead",
        ) from error
    if bind.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        raise NoTransaction(
            "the session's engine is in AUTOCOMMIT mode", remedy="bind it to one with a real isolation level"
        )
    return UnitOfWork(bind.dialect, asynchronous, partial(_enlist, session))


def _enlist(session: Session, writer: Writer, message: Message) -> None:
    session.info[_USED] = True
    session.add(_Marker(next(_NUMBERS), writer, message))


def _write_after_flush(session: Session, _: UOWTransaction) -> None:
    """Write what the flush carried along. An error makes the flush fail, and the session roll back, as any INSERT's."""
    if _USED not in session.info:
        return
    for writer, messages in _waiting(session):
        connection = session.connection(bind_arguments={"mapper": _MAPPER})
        _check(connection)
        run(writer.write(connection.dialect, messages), partial(_execute, connection))


def _waiting(session: Session) -> Iterator[tuple[Writer, list[Message]]]:
    """The new messages by writer, each once: what a listener adds at the end of a flush comes up again in the next."""
    markers = [item for item in session.new if isinstance(item, _Marker) and not item.written]
    markers.sort(key=lambda marker: (marker.writer.place, marker.number))
    for writer, group in groupby(markers, key=lambda marker: marker.writer):
        messages = []
        for marker in group:
            marker.written = True
            messages.append(marker.message)
        yield writer, messages


event.listen(Session, "after_flush", _write_after_flush)
