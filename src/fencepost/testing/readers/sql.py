"""A reader of an inbox table: plain SQL through the database's own driver, as a consumer would read it.

Tables that were made for the rules (their names begin with "rules_") are dropped when it is closed.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen

_COLUMNS = (
    *("id", "key", "version", "type", "source", "payload", "content_type", "headers"),
    *("occurred_at", "possible_repeat"),
)
_MADE = "rules_"


class _Database(Protocol):
    """``quote`` stands around a name that is a word of the language."""

    quote: str

    async def rows(self, text: str, *values: str) -> Sequence[Sequence[Any]]:
        """The rows of a query with %s for each value; nothing where the table does not exist."""
        ...

    async def run(self, text: str) -> None:
        """A statement."""
        ...


class SqlReader:
    """``fencepost.testing.harness.Reader`` says what each call promises."""

    def __init__(self, options: BrokerOptions) -> None:
        self._prefix = str(options.settings.get("prefix", "fencepost_"))
        url = options.url.partition("+")[2]
        kind = url.partition("://")[0].partition("+")[0]
        self._database: _Database = _DATABASES[kind](url)

    async def read(self, topic: str) -> Sequence[Seen]:
        q = self._database.quote
        names = ", ".join(f"{q}{name}{q}" for name in _COLUMNS)
        text = f"SELECT {names} FROM {self._prefix}messages WHERE topic = %s ORDER BY seq"  # noqa: S608
        rows = await self._database.rows(text, topic)
        return [_seen(topic, dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    def unpublishable(self, message: Stored) -> Stored:
        return message._replace(type="t" * 256)

    async def close(self) -> None:
        if self._prefix.startswith(_MADE):
            for name in ("messages", "messages_lane", "messages_receipt"):
                await self._database.run(f"DROP TABLE IF EXISTS {self._prefix}{name}")


def _seen(topic: str, row: dict[str, Any]) -> Seen:
    moment = row["occurred_at"]
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    attributes = {
        "specversion": "1.0",
        "id": row["id"],
        "source": row["source"],
        "type": row["type"],
        "datacontenttype": row["content_type"],
        "time": (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat(),
        "subject": row["key"],
        "entityversion": None if row["version"] is None else str(row["version"]),
        "possiblerepeat": "true" if row["possible_repeat"] else None,
    }
    own = json.loads(row["headers"] or "{}")
    return Seen(topic, row["payload"], {n: v for n, v in attributes.items() if v is not None}, own)


class _Postgresql:
    quote = '"'

    def __init__(self, url: str) -> None:
        self._url = f"postgresql://{url.partition('://')[2]}"

    async def rows(self, text: str, *values: str) -> Sequence[Sequence[Any]]:
        import asyncpg

        async with self._connection() as connection:
            try:
                found: list[Any] = await connection.fetch(text.replace("%s", "$1"), *values)
            except asyncpg.UndefinedTableError:
                return []
            return [tuple(row) for row in found]

    async def run(self, text: str) -> None:
        async with self._connection() as connection:
            await connection.execute(text)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        import asyncpg

        connection = await asyncpg.connect(self._url)
        try:
            yield connection
        finally:
            await connection.close()


class _Mariadb:
    quote = "`"
    _NO_TABLE = 1146

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._arguments: dict[str, Any] = {
            "host": parts.hostname,
            "port": parts.port or 3306,
            "user": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
            "database": parts.path.lstrip("/"),
            "charset": "utf8mb4",
        }

    async def rows(self, text: str, *values: str) -> Sequence[Sequence[Any]]:
        import asyncmy

        async with self._cursor() as cursor:
            try:
                await cursor.execute(text, values)
            except asyncmy.errors.ProgrammingError as error:
                if error.args[0] != self._NO_TABLE:
                    raise
                return []
            found: Sequence[Sequence[Any]] = await cursor.fetchall()
            return found

    async def run(self, text: str) -> None:
        import warnings

        async with self._cursor() as cursor:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # asyncmy tells that there was no such table
                await cursor.execute(text)

    @asynccontextmanager
    async def _cursor(self) -> AsyncIterator[Any]:
        import asyncmy

        connection = await asyncmy.connect(**self._arguments, autocommit=True)
        try:
            async with connection.cursor() as cursor:
                yield cursor
        finally:
            await connection.ensure_closed()


class _Sqlite:
    quote = '"'

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert not parse_qs(parts.query)
        self._path = Path(unquote(parts.path)[1:])

    async def rows(self, text: str, *values: str) -> Sequence[Sequence[Any]]:
        return await asyncio.to_thread(self._rows, text.replace("%s", "?"), values)

    async def run(self, text: str) -> None:
        await asyncio.to_thread(self._rows, text, ())

    def _rows(self, text: str, values: Sequence[str]) -> Sequence[Sequence[Any]]:
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=10)
        try:
            return connection.execute(text, values).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
        finally:
            connection.close()


_DATABASES: dict[str, type[_Postgresql] | type[_Mariadb] | type[_Sqlite]] = {
    "postgresql": _Postgresql,
    "postgres": _Postgresql,
    "mariadb": _Mariadb,
    "mysql": _Mariadb,
    "sqlite": _Sqlite,
}


def reader(options: BrokerOptions) -> SqlReader:
    """The reader of one database."""
    return SqlReader(options)
