"""The collections and indexes of an outbox, in either form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencepost.databases.mongodb import indexes
from fencepost.databases.mongodb.connection import Outbox
from fencepost.databases.mongodb.indexes import Needed
from fencepost.mongo.client import Client, reach


class MongoSchema:
    """``fencepost.ports.Schema`` says what each call promises. Statements are for mongosh.

    ``check`` raises what makes it useless to have them, before anybody makes them.
    """

    def __init__(self, outbox: Outbox, needed: Sequence[Needed], check: Callable[[Outbox, Client], object]) -> None:
        self._outbox, self._needed, self._check = outbox, needed, check

    def statements(self) -> Sequence[str]:
        return [statement for one in self._needed for statement in one.statements()]

    async def apply(self) -> Sequence[str]:
        return await self._outbox.in_time(self._apply)

    async def missing(self) -> Sequence[str]:
        return await self._outbox.in_time(self._missing)

    async def _apply(self, client: Client) -> list[str]:
        await self._reach(client)
        return await indexes.apply(self._outbox.database(client), self._needed)

    async def _missing(self, client: Client) -> list[str]:
        await self._reach(client)
        return await indexes.missing(self._outbox.database(client), self._needed)

    async def _reach(self, client: Client) -> None:
        await reach(client)
        self._check(self._outbox, client)
