"""MariaDB: the server counts who waits for a row's lock, and a relay's session is stepped statement by statement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from unittest.mock import patch

import asyncmy
from asyncmy.connection import Connection as Driver

from fencepost.databases.mariadb import connection as plugin
from fencepost.ports import Session
from fencepost.sql.mariadb_address import connect_arguments
from fencepost.testing.interleave import Side, Taken, step
from tests.interleavings.place import FILLED, Place, Row, words_of

T = TypeVar("T")


class SteppedConnection(plugin.Connection):
    """Each statement is a step: what the relay's session does, statement by statement, but for BEGIN."""

    async def say(self, text: str) -> None:
        if text == "BEGIN":
            await super().say(text)
        else:
            await step(words_of(text), lambda: super(SteppedConnection, self).say(text))

    async def _execute(self, text: str, arguments: tuple[Any, ...]) -> Any:
        return await step(words_of(text), lambda: super(SteppedConnection, self)._execute(text, arguments))


class Executing(Driver):
    """An application's connection."""

    async def execute(self, text: str) -> Any:
        async with self.cursor() as cursor:
            await cursor.execute(text)
            return await cursor.fetchall() if cursor.description else []


class MariadbPlace(Place):
    """A statement that is at work while as many wait for a row as are at work waits itself."""

    driver = "asyncmy"
    patience_s = 0.003
    _WAITING = (
        "SELECT (SELECT variable_value FROM information_schema.global_status"
        " WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'), count(*)"
        " FROM information_schema.processlist"
        " WHERE db = DATABASE() AND command IN ('Query', 'Execute') AND id <> CONNECTION_ID()"
    )
    _observer: Any = None

    async def open(self) -> None:
        await super().open()
        self._observer = await asyncmy.connect(**connect_arguments(self.options.url))

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()
        for connection in (*(application.connection for application in self.applications.values()), self._observer):
            if connection is not None:
                connection.close()

    async def clear(self) -> None:
        for table in FILLED:
            await self.left.connection.execute(f"DELETE FROM {self.options.prefix}{table}")

    async def session(self, side: Side) -> Session:
        with patch.object(plugin, "Connection", SteppedConnection):
            return await super().session(side)

    def url_of(self, side: Side) -> str:
        return self.options.url

    async def connect(self, side: Side) -> Any:
        connection = Executing(**connect_arguments(self.options.url))  # type: ignore[no-untyped-call]
        await connection.connect()
        return connection

    def in_transaction(self, connection: Any) -> bool:
        return bool(connection.connected and connection.get_transaction_status())

    async def roll_back(self, connection: Any) -> None:
        if connection.connected:  # a call that is given up takes its connection along, and the server rolls back
            await connection.execute("ROLLBACK")

    async def rows(self, text: str) -> list[Row]:
        return list(await self.left.connection.execute(text.replace("key", "`key`")))

    async def call(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        return await call()

    async def waits(self, taken: Taken) -> bool:
        async with self._observer.cursor() as cursor:
            await cursor.execute(self._WAITING)
            waiting, busy = await cursor.fetchone()
        return 0 < int(busy) <= int(waiting)
