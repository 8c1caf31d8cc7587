"""A real database of these tests: two applications and a relay's sessions on it, set up once, emptied for each play.

What differs between databases stands in a module for each. A new one is one more of them and a name in the fixtures'
``KINDS``; where a number of orders is pinned for each database, its own is missed until it is there.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from fencepost import plugins
from fencepost.message import Message
from fencepost.ports import DatabaseOptions, Lane, Session
from fencepost.sql.adding import OutboxWriter
from fencepost.sql.faults import fault_of
from fencepost.sql.outbox import Versions
from fencepost.testing.interleave import Check, Party, Report, Side, Taken, interleave, run_in_steps, step
from fencepost.testing.messages import message

T = TypeVar("T")

LANE = Lane("orders")
TOPIC = "orders"
SIDES: tuple[Side, Side] = ("L", "R")

FILLED = ("outbox", "entity", "parked", "business")

Row = tuple[Any, ...]

_MADE: set[str] = set()


class Unlucky(Exception):
    """A writer rolls back."""


class Application:
    """One of the two parties' own connection. Each statement of a transaction is a step."""

    def __init__(self, place: Place, connection: Any) -> None:
        self.place, self.connection = place, connection

    @asynccontextmanager
    async def transaction(self, begin: str | None = None) -> AsyncIterator[None]:
        """Commits at the end; rolls back where the block raises. Errors are told in families, as applications would.

        To begin is a step only where it takes a lock: otherwise it comes to the same, whatever the other party does.
        What is open when a party is stopped in the middle of a play, the place ends.
        """
        begin = begin or self.place.begin
        try:
            if begin == "BEGIN":
                await self.connection.execute(begin)
            else:
                await self.say("begin", begin)
            yield
            await self.say("commit", "COMMIT")
        except Exception as error:
            await step("roll back", self.end)
            fault = fault_of(error, "the database")
            if fault is None or fault is error:
                raise
            raise fault from error

    async def say(self, name: str, text: str) -> None:
        """A statement without rows, as a step."""
        await step(name, lambda: self.connection.execute(text))

    async def work(self) -> None:
        """A write of the application's own, to a row that nobody else wants."""
        await self.say("work", f"INSERT INTO {self.place.options.prefix}business (id) VALUES (NULL)")

    async def add(
        self, *messages: Message, versions: Versions = "counter", kind: type[OutboxWriter] = OutboxWriter
    ) -> list[Message]:
        """The real flow that adds messages, each of its statements a step."""
        joined = plugins.load("driver", self.place.driver).join(self.connection)
        writer = kind(None, self.place.options.prefix, versions)
        flow = writer.write(joined.dialect, messages)
        return await run_in_steps(flow, joined.execute, name=lambda call: words_of(call.statement.text))

    async def end(self) -> None:
        """Roll back, where a transaction is open."""
        await self.place.roll_back(self.connection)

    @property
    def open(self) -> bool:
        """Whether a transaction is open."""
        return self.place.in_transaction(self.connection)


class Place:
    """A database with empty tables. Subclasses know how to connect, and who waits for a lock."""

    driver: ClassVar[str]
    begin = "BEGIN"
    one_writer: ClassVar[bool] = False
    """Whether a second transaction that writes waits for the first one, whatever they write."""
    patience_s: ClassVar[float]
    """How long to wait before it is asked whether a step waits for a lock."""

    def __init__(self, options: DatabaseOptions) -> None:
        self.options = options
        self.applications: dict[Side, Application] = {}
        self._sessions: list[Session] = []

    async def open(self) -> None:
        """Make the tables, unless an earlier test has; connect both applications."""
        for side in SIDES:
            self.applications[side] = Application(self, await self.connect(side))
        if self.options.url not in _MADE:
            await self.plugin.schema(self.options).apply()
            await self.left.connection.execute(f"CREATE TABLE {self.options.prefix}business (id INTEGER)")
            _MADE.add(self.options.url)

    async def close(self) -> None:
        """End every connection."""
        for session in self._sessions:
            await session.close()
        for application in self.applications.values():
            await application.connection.close()

    async def run(
        self,
        left: Party[Any],
        right: Party[Any],
        check: Check[Any],
        *,
        fresh: Callable[[], Any] | None = None,
        waits: Callable[[Taken], Awaitable[bool]] | None = None,
        expected: tuple[type[Exception], ...] = (),
        alike: bool = False,
        deadline_s: float = 10.0,
    ) -> Report:
        """Every order of two parties here. Parties without a ``fresh`` of their own are given this place."""
        return await interleave(
            left,
            right,
            fresh=fresh or self.fresh,
            check=check,
            waits=lambda _, taken: (waits or self.waits)(taken),
            patience_s=self.patience_s,
            expected=expected,
            alike=alike,
            deadline_s=deadline_s,
        )

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Place]:
        """One play: empty tables before it, no transaction left open after it."""
        await self.clear()
        try:
            yield self
            left_open = [side for side in SIDES if self.applications[side].open]
            assert not left_open, f"transactions are left open: {left_open}"
        finally:
            for application in self.applications.values():
                await application.end()

    async def clear(self) -> None:
        """Empty every table that a play fills."""
        for table in FILLED:
            await self.left.connection.execute(f"DELETE FROM {self.options.prefix}{table}")

    @property
    def name(self) -> str:
        """What the plug-in is called."""
        return plugins.name_of("database", self.options.url)

    @property
    def plugin(self) -> Any:
        """The plug-in of this database."""
        return plugins.load("database", self.name)

    @property
    def left(self) -> Application:
        """The left party's."""
        return self.applications["L"]

    @property
    def right(self) -> Application:
        """The right party's."""
        return self.applications["R"]

    async def session(self, side: Side) -> Session:
        """A relay's session, closed at the end of the test."""
        options = replace(self.options, url=self.url_of(side))
        session: Session = await self.plugin.source(options).connect()
        self._sessions.append(session)
        return session

    async def put(self, *messages: Message) -> list[Message]:
        """Commit these messages, without taking part in a play."""
        async with self.left.transaction():
            return await self.left.add(*messages)

    async def outbox(self, columns: str = "seq, id, key, version") -> list[Row]:
        """What stands in the outbox, by position."""
        return await self.rows(f"SELECT {columns} FROM {self.options.prefix}outbox ORDER BY seq")

    async def parked(self) -> list[str]:
        """The ids of what was set aside."""
        return [id_ for (id_,) in await self.rows(f"SELECT id FROM {self.options.prefix}parked")]

    # -- what differs --------------------------------------------------------------------------------------------------

    def url_of(self, side: Side) -> str:
        """The address, for connections of this party."""
        raise AssertionError("a subclass does this")

    async def connect(self, side: Side) -> Any:
        """A connection for an application, in which nothing is begun by itself."""
        raise AssertionError("a subclass does this")

    def in_transaction(self, connection: Any) -> bool:
        """Whether it has a transaction open."""
        raise AssertionError("a subclass does this")

    async def roll_back(self, connection: Any) -> None:
        """End its transaction, also one that a call which was given up may still begin."""
        raise AssertionError("a subclass does this")

    async def rows(self, text: str) -> list[Row]:
        """Rows of a query; ids as text."""
        raise AssertionError("a subclass does this")

    async def call(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """A call of a session, as one step, or as more where somebody could come in between."""
        return await step(name, call)

    async def waits(self, taken: Taken) -> bool:
        """Whether this step waits for a lock."""
        raise AssertionError("a subclass does this")

    async def bystand(self) -> bool:
        """True, after so much time as somebody needs who waits for no lock: more of it where the machine is busy."""
        return True


def about(key: str | None, **rest: Any) -> Message:
    """An ordinary message of an entity."""
    return replace(message(key, topic=TOPIC), **rest)


def words_of(text: str) -> str:
    """What a statement's step is called: its verb and its table; ``add`` where it locks, draws and inserts at once."""
    if text.startswith("WITH locked"):
        return "add"
    verbs = re.findall(r"\b(insert|delete|update|select|begin|commit|rollback)\b", text.lower())
    verb = next((v for v in verbs if v != "select"), verbs[0] if verbs else text.split(maxsplit=1)[0].lower())
    table = re.search(r"_(outbox|entity|parked|lane)\b", text)
    return f"{verb} {table[1]}" if table else verb
