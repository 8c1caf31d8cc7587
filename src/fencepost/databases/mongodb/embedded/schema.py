"""The indexes that find business documents with messages."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.databases.mongodb import indexes
from fencepost.databases.mongodb.connection import Outbox
from fencepost.databases.mongodb.deployment import check_writable
from fencepost.databases.mongodb.embedded.fields import Field
from fencepost.mongo.client import Client, reach
from fencepost.ports import DatabaseOptions


class EmbeddedSchema:
    """``fencepost.ports.Schema`` says what each call promises. Statements are for mongosh."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._outbox = Outbox(options)
        self._needed = Field(options.prefix).needed(self._outbox.address.collections)

    def statements(self) -> Sequence[str]:
        return [statement for one in self._needed for statement in one.statements()]

    async def apply(self) -> Sequence[str]:
        return await self._outbox.in_time(self._apply)

    async def missing(self) -> Sequence[str]:
        return await self._outbox.in_time(self._missing)

    async def _apply(self, client: Client) -> list[str]:
        await reach(client)
        check_writable(self._outbox, client)
        return await indexes.apply(self._outbox.database(client), self._needed)

    async def _missing(self, client: Client) -> list[str]:
        return await indexes.missing(self._outbox.database(client), self._needed)
