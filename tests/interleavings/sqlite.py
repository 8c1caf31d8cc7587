"""SQLite: one writer at a time, and nobody to ask who waits for the file's lock."""

from __future__ import annotations

import sqlite3
from typing import Any, ClassVar

import aiosqlite

from fencepost.testing.interleave import Side, Taken
from tests.interleavings.place import Place, Row

READS = {"held", "look", "read", "restart"}
"""Steps that need no lock on SQLite."""


class SqlitePlace(Place):
    """One writer at a time: who does not return while the other has a transaction open waits for the file's lock.

    A statement waits longer for it than a play may last, so that it never fails for that alone. A call of a session is
    one transaction that has the lock from its beginning: nobody comes in between.
    """

    driver = "sqlite3"
    begin = "BEGIN IMMEDIATE"
    one_writer = True
    journal: ClassVar[str] = "WAL"
    patience_s = 0.02
    busy_s = 15.0
    _bystander: Any = None

    @property
    def path(self) -> str:
        """The file."""
        return self.options.url.removeprefix("sqlite:///")

    async def open(self) -> None:
        connection = sqlite3.connect(self.path)
        connection.execute(f"PRAGMA journal_mode = {self.journal}")
        connection.close()
        await super().open()
        self._bystander = await aiosqlite.connect(self.path)

    async def close(self) -> None:
        await super().close()
        if self._bystander is not None:
            await self._bystander.close()

    def url_of(self, side: Side) -> str:
        return self.options.url

    async def connect(self, side: Side) -> Any:
        connection = await aiosqlite.connect(self.path, isolation_level=None, timeout=self.busy_s)
        await connection.execute("PRAGMA synchronous = OFF")
        return connection

    def in_transaction(self, connection: Any) -> bool:
        return bool(connection.in_transaction)

    async def roll_back(self, connection: Any) -> None:
        await connection.rollback()  # its thread does this after what it is at, and nothing where nothing is open

    async def rows(self, text: str) -> list[Row]:
        return [tuple(row) for row in await self.left.connection.execute_fetchall(text)]

    async def waits(self, taken: Taken) -> bool:
        other = self.applications["R" if taken.side == "L" else "L"]
        return taken.name not in READS and other.open and await self.bystand()

    async def bystand(self) -> bool:
        for _ in range(5):
            await self._bystander.execute("SELECT 1")
        return True


class SqliteRollbackPlace(SqlitePlace):
    """SQLite as it is without a write-ahead log."""

    journal = "DELETE"
