"""Leases in a table of a SQL database: PostgreSQL (asyncpg), MariaDB and MySQL (asyncmy), SQLite (aiosqlite).

A lease is a row; whoever gives it the next token, under the row's lock, leads. The database's clock judges expiry.
Where sessions can be seen to end (fencepost.sql.sessions) a killed owner is replaced before its lease has ended.

Settings: ``session_evidence`` is "auto" (the default: wherever it can be had) or "off".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from fencepost.elections.bells import Bells, rung
from fencepost.elections.sql_databases import Database
from fencepost.elections.sql_kinds import database
from fencepost.errors import AccessDenied, Contention
from fencepost.ports import Holder, LeaseOptions, Term
from fencepost.sql.lease import LeaseRow, LeaseStatements
from fencepost.sql.link import Link, Wire
from fencepost.sql.sessions import NoEvidence, Seen, SessionEvidence

_PROBE_S = 0.1  # between two looks at a lock that cost no statement


class SqlLeaseStore:
    """A LeaseStore with one connection of its own."""

    fences = "rows of the same database"

    def __init__(self, database: Database, options: LeaseOptions) -> None:
        self._database = database
        self._clock = options.clock
        self._timeout_s = options.timeout_s
        self._say = LeaseStatements(database.table, database.engine.dialect.name)
        self._link = Link(database.engine, database.place, self._opened, database.abort)
        self._evidence: SessionEvidence = NoEvidence()
        self._held: dict[str, tuple[Term, float]] = {}  # and the monotonic time when it ends, if it is not renewed
        self._bells = Bells()

    @property
    def session_evidence(self) -> str:
        """What shows candidates that this store's session has ended, or why nothing does; for people to read."""
        return self._database.evidence

    async def open(self) -> None:
        """Connect; see LeaseStore."""
        self._link.reopen()
        async with self._link.use(self._timeout_s):
            pass

    async def rehearse(self) -> None:
        """See LeaseStore."""
        try:
            async with self._link.use(self._timeout_s) as wire:
                await self._database.rehearse(wire)
        except AccessDenied as error:
            raise AccessDenied(f"no lease can be taken or kept: {error.what}", remedy=error.remedy) from error

    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        """A new term, or None; see LeaseStore."""
        seen = await self._look(name)  # most often it is somebody else's: no lock is taken to find that out
        if seen is not None and not (seen.free or seen.owner == owner or seen.gone):
            return None
        async with self._link.use(self._timeout_s) as wire:
            await self._database.begin(wire, ttl_s)
            row = await self._row_of_ours(wire, name)
            early = row is not None and not row.free and row.owner != owner and await self._is_gone(name, row)
            if row is None or not (row.free or row.owner == owner or early):
                await wire.say("ROLLBACK")
                return None
            return await self._begin(wire, row, Term(name, owner, row.token + 1, early), ttl_s)

    async def renew(self, term: Term, ttl_s: float) -> bool:
        """Extend the term; see LeaseStore. An answer that comes later than a third of it is not waited for."""
        ends_s = self._clock.monotonic() + ttl_s
        async with self._statement(self._database.renew_timeout_s(self._timeout_s, ttl_s)) as wire:
            # A new connection has no lock of the term yet. Where it cannot be had, the row says so.
            session = await self._evidence.hold(term.name, term.token)
            renewed = await wire.count(self._say.renew, **_exact(term), ttl_s=ttl_s, session_=session) == 1
            if renewed:
                self._held[term.name] = (term, ends_s)
            else:
                await self._evidence.let_go(term.name, term.token)
                self._forget(term)
        return renewed

    async def release(self, term: Term) -> None:
        """End the term and wake those who wait; see LeaseStore."""
        try:
            async with self._statement(self._timeout_s) as wire:
                if await wire.count(self._say.release, **_exact(term)) == 1:
                    await self._database.notify(wire, term.name)
                await self._evidence.let_go(term.name, term.token)
        except BaseException:
            self._evidence.abandon(term.name, term.token)  # its work has ended: let that be seen at least
            raise
        finally:
            self._forget(term)
        self._bells.ring(term.name)

    async def wait(self, name: str, timeout_s: float) -> None:
        """Wait until the lease may be free; see LeaseStore.

        Who holds it himself is woken when his connection ends, that is when he may be taken for gone; it costs no
        statement.
        """
        until_s = self._clock.monotonic() + timeout_s
        with self._bells.hung(name) as bell:
            while (left_s := until_s - self._clock.monotonic()) > 0:
                held_for_s = self._held_for_s(name)
                if held_for_s > 0:
                    if not self._link.up or await rung(bell, min(left_s, held_for_s)):
                        return
                    continue
                row = await self._look(name)
                if row is None or row.free or row.gone or await self._quiet(bell, name, row, left_s):
                    return

    async def holder(self, name: str) -> Holder | None:
        """Who has the lease; see LeaseStore."""
        async with self._statement(self._timeout_s) as wire:
            found = await wire.first(self._say.read, name_=name)
        row = None if found is None else LeaseRow.of(found)
        if row is None or row.owner is None:
            return None
        return Holder(owner=row.owner, token=row.token, remaining_s=row.remaining_s, held_s=row.held_s)

    async def close(self) -> None:
        """Close the connection; see LeaseStore."""
        await self._link.close()
        self._evidence.close()
        self._bells.ring(None)

    # -- terms ---------------------------------------------------------------------------------------------------------

    async def _row_of_ours(self, wire: Wire, name: str) -> LeaseRow | None:
        """The row, locked; made where there was none. None where somebody else is at it in this moment."""
        found = await wire.first(self._say.lock, name_=name)
        if found is None:
            await wire.count(self._say.seed, name_=name)
            found = await wire.first(self._say.lock, name_=name)
        return None if found is None else LeaseRow.of(found)

    async def _is_gone(self, name: str, row: LeaseRow) -> bool:
        return row.session and await self._evidence.seen(name, row.token) is Seen.GONE

    async def _begin(self, wire: Wire, row: LeaseRow, term: Term, ttl_s: float) -> Term:
        """Give the row to a new term. Its lock is held before anybody can see the term."""
        ends_s = self._clock.monotonic() + ttl_s
        session = await self._evidence.hold(term.name, term.token)
        try:
            values = {"name_": term.name, "owner_": term.owner, "token_": row.token}
            if await wire.count(self._say.take, **values, ttl_s=ttl_s, session_=session) != 1:
                raise Contention(f"{self._database.place}: the row of {term.name!r} changed under its lock")
            await wire.say("COMMIT")
        except BaseException:
            self._evidence.abandon(term.name, term.token)
            raise
        former = self._held.get(term.name)
        self._held[term.name] = (term, ends_s)
        for token in {row.token, row.token if former is None else former[0].token}:
            await self._evidence.let_go(term.name, token)
        return term

    def _forget(self, term: Term) -> None:
        if self._held.get(term.name, (None, 0.0))[0] == term:
            del self._held[term.name]

    def _held_for_s(self, name: str) -> float:
        """How long a lease of this store's own lasts; at most 0 where it has none of that name."""
        held = self._held.get(name)
        return 0.0 if held is None else held[1] - self._clock.monotonic()

    # -- waiting -------------------------------------------------------------------------------------------------------

    async def _look(self, name: str) -> LeaseRow | None:
        """The row, and whether its owner is gone: one statement."""
        async with self._statement(self._timeout_s) as wire:
            gone = self._evidence.probe(name, self._say.table.c.token)
            found = await wire.first(self._say.probe(gone), name_=name)
        if found is None:
            return None
        row = LeaseRow.of(found)
        return replace(row, gone=await self._is_gone(name, row)) if self._evidence.free_of_charge else row

    async def _quiet(self, bell: asyncio.Event, name: str, row: LeaseRow, left_s: float) -> bool:
        """Wait until it is time to look again; True where there is news before."""
        if row.session and self._evidence.can_wait and not self._held and len(self._bells) == 1:
            return await self._gone_within(name, row, min(row.remaining_s, left_s))
        if not (row.session and self._evidence.free_of_charge):
            low_s, high_s = self._database.look_every_s
            pause_s = low_s + (high_s - low_s) * self._clock.random()
            return await rung(bell, min(pause_s, row.remaining_s, left_s))
        until_s = self._clock.monotonic() + min(row.remaining_s, left_s)
        while (rest_s := until_s - self._clock.monotonic()) > 0:
            if await rung(bell, min(_PROBE_S, rest_s)):
                return True
            seen = await self._evidence.seen(name, row.token)
            if seen is not Seen.ALIVE:
                return seen is Seen.GONE  # otherwise the row tells, most often that it was released
        return False

    async def _gone_within(self, name: str, row: LeaseRow, wait_s: float) -> bool:
        """One statement that ends with the owner's session, on a connection that nobody else needs meanwhile."""
        async with self._statement(wait_s + self._timeout_s):
            return await self._evidence.gone_within(name, row.token, wait_s)

    # -- the connection ------------------------------------------------------------------------------------------------

    async def _opened(self, wire: Wire) -> None:
        def lost() -> None:
            wire.broken = True
            self._bells.ring(None)

        self._evidence = await self._database.opened(wire, self._bells.ring, lost)

    @asynccontextmanager
    async def _statement(self, timeout_s: float) -> AsyncIterator[Wire]:
        """The connection for statements of which each stands for itself."""
        async with self._link.use(timeout_s) as wire:
            if self._database.wrapped:
                await wire.say("BEGIN")
            yield wire
            if self._database.wrapped:
                await wire.say("COMMIT")


def _exact(term: Term) -> dict[str, object]:
    return {"name_": term.name, "owner_": term.owner, "token_": term.token}


def lease_store(options: LeaseOptions) -> SqlLeaseStore:
    """The plug-in's factory. Raises ConfigurationError, or MissingExtra where the driver is not installed."""
    return SqlLeaseStore(database(options), options)
