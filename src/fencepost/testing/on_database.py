"""The fixtures of the rules about databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio

from fencepost.existing import ExistingTable
from fencepost.message import Message
from fencepost.testing.addresses import address
from fencepost.testing.patience import in_time
from fencepost.testing.places import OutboxPlace, outbox_place

Adding = Callable[..., Awaitable[list[Message]]]
"""Commits the messages that it is given in one transaction."""


@pytest.mark.asyncio(loop_scope="function")
class OnDatabase:
    """An empty outbox for every test.

    ``database`` is the name or the dotted module of the plug-in; ``writer_module`` has its writer, where that is not in
    the usual place (see ``fencepost.testing.harness``). ``settle`` says what becomes of settled rows, ``table`` which
    existing table is the outbox.
    """

    database: str
    writer_module: str | None = None
    settle: Literal["delete", "mark"] = "delete"
    table: ExistingTable | None = None

    @pytest.fixture
    def database_url(self, tmp_path: Path) -> str:
        """Where the database is."""
        return address("database", self.database, tmp_path)

    @pytest_asyncio.fixture(loop_scope="function")
    async def place(self, database_url: str) -> AsyncIterator[OutboxPlace]:
        """An empty outbox."""
        writer = self.writer_module
        place = outbox_place(self.database, database_url, writer_module=writer, settle=self.settle, table=self.table)
        async with place as made:
            yield made

    @pytest.fixture
    def add_beside(self, place: OutboxPlace, pytestconfig: pytest.Config) -> Adding:
        """To add while another transaction is open. Without a writer who can, the rule is skipped."""
        if not place.writer.concurrent:
            pytest.skip(f"{place.database} has one writer at a time: no transaction commits behind a later one")
        why = (
            f"the writer of {place.database} is `concurrent`, but a transaction waits until another one has ended:"
            " say `concurrent = False` if the database has one writer at a time"
        )

        async def add(*messages: Message) -> list[Message]:
            async with in_time(pytestconfig, why):
                return await place.add(*messages)

        return add
