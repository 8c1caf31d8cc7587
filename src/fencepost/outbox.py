"""Adding messages inside the application's own transaction: the writing side of an outbox.

    outbox = Outbox()
    with engine.begin() as connection:
        connection.execute(...)                                              # the business
        outbox.add(connection, "orders", {"id": 1}, key="1", type="placed")  # and what it has to tell, or neither

``AsyncOutbox`` is the same for connections and sessions that are awaited. Nothing here opens, commits or rolls back
anything, and nothing talks to a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Unpack, get_args

from fencepost import plugins
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.errors import ConfigurationError
from fencepost.flows import run, run_async
from fencepost.message import Message
from fencepost.newmessage import JSON, Attributes, Encoder, MessageMaker, NewMessage, name_of_class
from fencepost.sql.adding import OutboxWriter
from fencepost.sql.outbox import Versions
from fencepost.sql.transaction import Awaiting, Blocking, Joined, UnitOfWork

__all__ = ["JSON", "AsyncOutbox", "Encoder", "NewMessage", "Outbox", "Versions"]

_SAME_DRIVER = {
    "MySQLdb": "mysqlclient",
    "aiosqlite": "sqlite3",
}  # package -> the driver that knows its connections too


class _Adding:
    """What both outboxes share: options, making the message, finding the driver."""

    def __init__(
        self,
        *,
        versions: Versions = "counter",
        schema: str | None = None,
        prefix: str = "fencepost_",
        max_bytes: int | None = 950_000,
        encoder: Encoder = JSON,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``versions``: "counter" keeps a small row for each entity and numbers its messages 1, 2, 3, ...; "position"
        leaves no row behind and takes the message's position, which grows for each entity too, but with gaps. All
        writers of an outbox use the same.

        ``schema`` and ``prefix`` say which tables; ``max_bytes`` is the largest payload plus headers, None for any
        size. Raises ConfigurationError for an unknown ``versions``.
        """
        if versions not in get_args(Versions):
            raise ConfigurationError(
                f"versions={versions!r}", remedy=f"use one of {', '.join(map(repr, get_args(Versions)))}"
            )
        self._writer = OutboxWriter(schema, prefix, versions)
        self._message = MessageMaker(max_bytes=max_bytes, encoder=encoder, clock=clock).make

    def _wrong_kind(self, tx: object, *, use: str) -> ConfigurationError:
        return ConfigurationError(f"{type(self).__name__} cannot use {name_of_class(type(tx))}", remedy=f"use {use}")

    def _enlist(self, unit: UnitOfWork, messages: Sequence[Message]) -> list[Message]:
        self._writer.check(unit.dialect, messages)  # so that what is refused is refused here, not at the flush
        for message in messages:
            unit.enlist(self._writer, message)
        return list(messages)


class Outbox(_Adding):
    """Adds messages to transactions that block: SQLAlchemy's Connection and Session, sqlite3, psycopg."""

    def add(
        self,
        tx: object,
        topic: str,
        payload: object,
        **attributes: Unpack[Attributes],
    ) -> Message:
        """Add one message to the transaction ``tx``; the arguments are those of ``NewMessage``.

        Returns it with its version. With a session it is written at the next flush, after the business rows; its
        version is drawn there and is None in what is returned.

        Raises MessageRefused, NoTransaction, ConfigurationError, VersionConflict and SchemaMissing before anything was
        written (with a session the flush raises the last two), and the driver's own errors.
        """
        new = NewMessage(topic, payload, **attributes)
        return self._write(tx, [self._message(new)])[0]

    def add_all(self, tx: object, messages: Iterable[NewMessage]) -> list[Message]:
        """Add many messages; each entity's keep their order. Returns them in the order given.

        On PostgreSQL all are written in one statement, or one each where you give versions and versions="counter".
        Entities are locked in sorted order, so two such calls never wait for each other in a circle. Raises what
        ``add`` raises; a VersionConflict may come after other messages were written, so roll back.
        """
        return self._write(tx, [self._message(new) for new in messages])

    def _write(self, tx: object, messages: list[Message]) -> list[Message]:
        joined = _join(tx)
        if isinstance(joined, Blocking):
            return run(self._writer.write(joined.dialect, messages), joined.execute)
        if isinstance(joined, UnitOfWork) and not joined.asynchronous:
            return self._enlist(joined, messages)
        raise self._wrong_kind(tx, use="AsyncOutbox, and await its calls")


class AsyncOutbox(_Adding):
    """Adds messages to transactions that are awaited: SQLAlchemy's AsyncConnection and AsyncSession, asyncpg, psycopg,
    aiosqlite.
    """

    async def add(
        self,
        tx: object,
        topic: str,
        payload: object,
        **attributes: Unpack[Attributes],
    ) -> Message:
        """The same as ``Outbox.add``."""
        new = NewMessage(topic, payload, **attributes)
        return (await self._write(tx, [self._message(new)]))[0]

    async def add_all(self, tx: object, messages: Iterable[NewMessage]) -> list[Message]:
        """The same as ``Outbox.add_all``."""
        return await self._write(tx, [self._message(new) for new in messages])

    async def _write(self, tx: object, messages: list[Message]) -> list[Message]:
        joined = _join(tx)
        if isinstance(joined, Awaiting):
            return await run_async(self._writer.write(joined.dialect, messages), joined.execute)
        if isinstance(joined, UnitOfWork) and joined.asynchronous:
            return self._enlist(joined, messages)
        raise self._wrong_kind(tx, use="Outbox, whose calls are not awaited")


# -------------------------------------------------------------------------------------------------------------- drivers


_drivers: dict[type, Callable[[object], Joined | None]] = {}


def _join(tx: object) -> Joined:
    """Join the transaction. Raises ConfigurationError for an object of an unknown kind."""
    kind = type(tx)
    join = _drivers.get(kind)
    if join is None:
        join = _drivers[kind] = _driver(kind)
    joined = join(tx)
    if joined is None:
        raise _no_transaction(kind)
    return joined


def _driver(kind: type) -> Callable[[object], Joined | None]:
    """The driver named after the package of the class, or of the nearest class that it inherits from."""
    known = plugins.names("driver")
    for ancestor in kind.__mro__:
        package = ancestor.__module__.partition(".")[0]
        name = _SAME_DRIVER.get(package, package)
        if name in known:
            join: Callable[[object], Joined | None] = plugins.load("driver", name).join
            return join
    raise _no_transaction(kind)


def _no_transaction(kind: type) -> ConfigurationError:
    packages = sorted({*plugins.names("driver"), *_SAME_DRIVER})
    return ConfigurationError(
        f"a message cannot be added to {name_of_class(kind)}",
        remedy=f"pass the connection or session that has your transaction open, of {', '.join(packages)}",
    )
