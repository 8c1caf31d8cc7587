"""The revisions of the tables, each a pair: what to run before its first program starts, and after the last old one.

Programs of two releases work on the same tables while one takes the place of the other. So a change comes in two
halves. ``before`` adds what the new release needs, in a way in which the old one goes on working. ``after`` takes away
what only the old one needed. Every statement may be run twice.

Who changes ``tables`` after a release adds a revision here, and lets those before keep what they made: the migrations
of Alembic and Django name a revision, and must do the same for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Dialect

from fencepost.errors import ConfigurationError
from fencepost.sql import schema as ddl
from fencepost.sql.tables import Tables

Statements = Callable[[Tables, Dialect], Sequence[str]]


def _none(_: Tables, __: Dialect) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One change of the tables. ``what`` is one line for people."""

    number: int
    what: str
    before: Statements
    after: Statements = _none


REVISIONS = (Revision(number=1, what="the five tables", before=ddl.statements),)
LATEST = REVISIONS[-1].number


def revision(number: int) -> Revision:
    """The revision of a number. Raises ConfigurationError where this release does not know it."""
    for known in REVISIONS:
        if known.number == number:
            return known
    raise ConfigurationError(
        f"there is no revision {number!r} of Fencepost's tables",
        remedy=f"this release knows 1 to {LATEST}: name one of them, or install a later release",
    )


def created(number: int, t: Tables, dialect: Dialect) -> Sequence[str]:
    """Everything that makes the tables of a revision where there are none. Raises ConfigurationError."""
    done = [known for known in REVISIONS if known.number <= revision(number).number]
    return [text for known in done for half in (known.before, known.after) for text in half(t, dialect)]
