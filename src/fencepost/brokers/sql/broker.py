"""The broker: a connection for each handoff, and the tables, made where they are missing and may be made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial

from sqlalchemy.exc import DBAPIError

from fencepost.brokers.sql.address import database_url
from fencepost.brokers.sql.advice import advice
from fencepost.brokers.sql.connection import Database, Line
from fencepost.brokers.sql.handoff import Destination, SqlHandoff
from fencepost.brokers.sql.rows import PREFIX as ATTRIBUTES
from fencepost.brokers.sql.rows import ROOM, Rows
from fencepost.brokers.sql.settings import Settings
from fencepost.brokers.sql.store import Store
from fencepost.errors import AccessDenied, ConfigurationError
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Handoff, Lane, Term
from fencepost.sql.faults import fault_of
from fencepost.sql.link import Wire
from fencepost.sql.messages import SOURCE_CHARACTERS_MAX, message_tables


class SqlBroker:
    """See fencepost.ports.Broker."""

    def __init__(self, options: BrokerOptions) -> None:
        """Raises ConfigurationError, or MissingExtra."""
        settings = Settings.read(options.settings)
        self._options = options
        self._database = Database(database_url(options.url), options.timeout_s, create=options.create)
        place, dialect = self._database.place, self._database.dialect
        if dialect.name == "sqlite" and settings.schema:
            raise ConfigurationError("SQLite has no schemas", remedy="leave schema out; prefix tells inboxes apart")
        if len(options.source) > SOURCE_CHARACTERS_MAX:
            what = f"the source {options.source[:80]!r}... is too long for an inbox table"
            raise ConfigurationError(what, remedy=f"shorten it to {SOURCE_CHARACTERS_MAX} characters")
        self._tables = message_tables(schema=settings.schema or None, prefix=settings.prefix)
        self._store = Store(self._tables, dialect, place)
        self._rows = Rows(options.envelope(ATTRIBUTES), options.source, dialect.name, place)
        self._warm: dict[str, Line] = {}
        self._handoffs: list[SqlHandoff] = []

    async def open(self) -> Capabilities:
        """See Broker. Nothing is made yet."""
        if not self._database.is_absent:
            async with self._looking() as wire:
                self._rows.bytes_max = await self._store.bytes_max(wire)
        most = self._rows.bytes_max
        return Capabilities(delivery=Delivery.ATOMIC, message_bytes_max=most - ROOM if most else None)

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """See Broker. A connection for the lane waits for its take-over."""
        line = self._warm.get(lane.name) or self._warm.setdefault(lane.name, Line(self._database))
        self._must_be_there()
        async with line.use(self._options.timeout_s) as wire:
            await self._ensure(wire)

    async def rehearse(self, lane: Lane) -> None:
        """Raise FixError where tables are missing that may not be made, or where a right is. Changes nothing."""
        self._must_be_there()
        if self._database.is_absent:
            return
        async with self._looking() as wire:
            await self._rehearse(wire)

    async def advice(self) -> Sequence[str]:
        """What the database may lose of that which it has committed, a line for each."""
        if self._database.is_absent:
            return ()
        async with self._looking() as wire:
            return await advice(wire, self._database.dialect.name)

    async def take_over(self, lane: Lane, term: Term) -> Handoff:
        """See Broker."""
        self._must_be_there()
        timeout_s = self._options.timeout_s
        line = self._warm.pop(lane.name, None) or Line(self._database)
        try:
            async with line.use(timeout_s) as wire:
                await self._ensure(wire)
                taken = await self._store.take(wire, lane, term)
        except BaseException:
            await line.close()
            raise
        to = Destination(line, self._store, self._rows, self._options.clock, timeout_s, partial(self._back, lane))
        handoff = SqlHandoff(to, lane, term, taken)
        self._handoffs = [*(each for each in self._handoffs if not each.is_over), handoff]
        return handoff

    async def close(self) -> None:
        """See Broker."""
        handoffs, self._handoffs = self._handoffs, []
        for handoff in handoffs:
            await handoff.close()
        lines, self._warm = [*self._warm.values()], {}
        for line in lines:
            await line.close()

    async def _back(self, lane: Lane, line: Line) -> None:
        """A connection that a handoff does not need any more: the next one of its lane may have it."""
        if not line.up or self._warm.setdefault(lane.name, line) is not line:
            await line.close()

    @asynccontextmanager
    async def _looking(self) -> AsyncIterator[Wire]:
        """A connection for this once."""
        line = Line(self._database)
        try:
            async with line.use(self._options.timeout_s) as wire:
                yield wire
        finally:
            await line.close()

    def _must_be_there(self) -> None:
        if self._database.is_absent and not self._options.create:
            raise self._store.lacking(self._tables.all)

    async def _ensure(self, wire: Wire) -> None:
        """The tables are there, and what a message may have is known."""
        missing = await self._store.missing(wire)
        if missing and self._options.create:
            await self._store.make(wire)
            missing = await self._store.missing(wire)
        if missing:
            raise self._store.lacking(missing)
        self._rows.bytes_max = self._rows.bytes_max or await self._store.bytes_max(wire)

    async def _rehearse(self, wire: Wire) -> None:
        missing = await self._store.missing(wire)
        if missing and not self._options.create:
            raise self._store.lacking(missing)
        if missing:
            return
        try:
            await self._store.rehearse(wire)
        except DBAPIError as error:
            fault = fault_of(error, self._database.place)
            if not isinstance(fault, AccessDenied):
                raise
            raise AccessDenied(f"nothing can be published: {fault.what}", remedy=self._rights()) from error

    def _rights(self) -> str:
        messages, lane, receipt = (table.fullname for table in self._tables.all)
        return (
            f"GRANT SELECT, INSERT ON {messages}, GRANT SELECT, INSERT, UPDATE ON {lane},"
            f" GRANT SELECT, INSERT, DELETE ON {receipt} to the relay's user"
        )
