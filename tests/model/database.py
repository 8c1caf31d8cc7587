"""What the application and the database do: add messages, commit late or never, fall back to an earlier state."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.rules import Rules, Scope
from tests.model.state import NOTHING, Database, Move, Row, Step, World


def writing(world: World, rules: Rules, scope: Scope) -> Iterator[Move]:
    """Transactions of the application; each adds one message."""
    database, message = world.database, world.added + 1
    if message <= scope.messages and not (rules.lock and _is_locked(database, message, scope)):
        row = Row(database.next_position, message)
        drawn = database._replace(next_position=row.position + 1, open=(*database.open, row))
        if scope.late:
            yield Step("database", "an open transaction adds", (row,)), world._replace(database=drawn, added=message)
        else:
            yield Step("database", "committed:", (row,)), world._replace(database=_committed(drawn, row), added=message)
    for row in database.open:
        yield Step("database", "committed:", (row,)), world._replace(database=_committed(database, row))
        rolled_back = database._replace(open=_others(database, row))
        yield Step("database", "!rolled back:", (row,)), world._replace(database=rolled_back)


def _is_locked(database: Database, message: int, scope: Scope) -> bool:
    return any(scope.key(row.message) == scope.key(message) for row in database.open)


def _committed(database: Database, row: Row) -> Database:
    return Database(
        rows=tuple(sorted((*database.rows, row))),
        open=_others(database, row),
        committed=database.committed | {row.message},
        next_position=database.next_position,
    )


def _others(database: Database, row: Row) -> tuple[Row, ...]:
    return tuple(each for each in database.open if each != row)


def falling_back(world: World, scope: Scope) -> Iterator[Move]:
    """A copy of the database stops following once, and takes the database's place once."""
    if scope.forgets is None or world.fell_back:
        return
    if world.copy is None:
        yield Step("database", "!its copy stops following"), world._replace(copy=world.database._replace(open=NOTHING))
    elif _is_recent(world, world.copy, scope.forgets):
        first, second = (relay._replace(connected=False) for relay in world.relays)
        after = world._replace(database=world.copy, relays=(first, second), copy=None, fell_back=True)
        yield Step("database", "!falls back to its copy, with the rows", world.copy.rows), after


def _is_recent(world: World, copy: Database, forgets: int) -> bool:
    """Whether the rows that come back are among the last ones that were settled."""
    waiting = {row.message for row in world.database.rows}
    settled = [message for message in world.broker.published if message not in waiting]
    recent = settled[max(0, len(settled) - forgets) :]
    return {row.message for row in copy.rows}.intersection(settled) <= set(recent)
