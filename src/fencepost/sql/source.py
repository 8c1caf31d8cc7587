"""The statements of a relay that reads an outbox: the same for all SQL databases, as texts of each dialect.

PostgreSQL is given many rows as two arrays, written as text: a driver encodes one text faster than 2,000 elements.
MariaDB is given them as one JSON. SQLite is given them one at a time, which costs no round trip.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Dialect

from fencepost.errors import ConfigurationError
from fencepost.message import Position
from fencepost.ports import Backlog, DatabaseOptions
from fencepost.sql.source_mariadb import MariadbTexts
from fencepost.sql.source_postgresql import NOBODY, PostgresqlTexts
from fencepost.sql.source_sqlite import SqliteTexts
from fencepost.sql.source_texts import SourceTexts
from fencepost.sql.tables import Tables

ERROR_CHARACTERS_MAX = 4_000
"""Longer error texts and reasons are cut."""

LOWEST = -(2**63)
"""Below every position."""

_SPREAD_MAX = 4
_BARE = re.compile(r"(?:[0-9a-f-]+(?:,[0-9a-f-]+)*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatements:
    """The statements, each with the arguments that it takes, in order.

    ``seqs``, ``ids``, ``firsts`` and ``lasts`` are arrays as text. The others are JSON: ``ranges`` is
    [[first, last], ...], ``rows`` [[position, id], ...], ``positions`` [position, ...]. What a database has no use for
    is "".
    """

    pending: str  # (after, limit)
    pending_in_slots: str  # (after, first_slot, last_slot, limit)
    below: str  # (position, limit)
    below_in_slots: str  # (position, first_slot, last_slot, limit)
    settle: str  # PostgreSQL (seqs, ids), SQLite (position, id), MariaDB (rows)
    settle_between: str = ""  # PostgreSQL (first, last, ids): see ``between``
    held: str  # PostgreSQL (firsts, lasts), SQLite and MariaDB (ranges)
    held_at: str = ""  # MariaDB (positions)
    in_doubt: str  # PostgreSQL (token, seqs, ids), SQLite (token, position, id), MariaDB (rows, token)
    failed: str  # (error, position, id)
    copy_to_parked: str  # (reason, position, id)
    remove: str  # (position, id)
    due: str = ""  # MariaDB (limit): the positions that are due
    release_due: str  # (limit), MariaDB (positions); PostgreSQL returns the seconds until the next one, or no row
    next_due: str  # (): the seconds until the next one, or no row
    backlog: str  # (): pending, delayed, parked, age of the oldest pending one in seconds
    set_asleep: str = ""  # PostgreSQL (relay, lane, first_slot, last_slot, asleep)
    lowest: str = ""  # below every position, where positions are texts
    # Where parked rows stay in the table, in a state of their own: see ``sql/existing/parked.py``.
    parked_page: str = ""  # (after, limit): the columns of ``pending``, and the reason
    parked_count: str = ""  # ()
    parked_find: str = ""  # (position, id): returns the id, and locks the row
    parked_payload: str = ""  # (position, id)
    parked_retry: str = ""  # (position, id)
    parked_discard: str = ""  # (position, id)
    # Where settled rows stay. ``ago_us`` is a number of microseconds.
    purgeable: str = ""  # (ago_us): how many
    oldest_settled: str = ""  # MariaDB (ago_us, limit): the positions of the oldest
    purge: str = ""  # (ago_us, limit), MariaDB (positions)


_TEXTS: dict[str, type[SourceTexts]] = {
    "mariadb": MariadbTexts,
    "mysql": MariadbTexts,
    "postgresql": PostgresqlTexts,
    "sqlite": SqliteTexts,
}


def source_statements(t: Tables, dialect: Dialect) -> SourceStatements:
    """Compile the statements. Raises ConfigurationError for a database that cannot hold an outbox."""
    texts = _TEXTS.get(dialect.name)
    if texts is None:
        remedy = f"use one of {', '.join(sorted(_TEXTS))}"
        raise ConfigurationError(f"an outbox cannot be kept in {dialect.name!r}", remedy=remedy)
    return SourceStatements(**texts(t, dialect).all())


def must_be_kept(options: DatabaseOptions) -> None:
    """Raise ConfigurationError where settled rows are deleted at once, so that there is nothing to purge."""
    if options.settle != "mark":
        raise ConfigurationError(
            "settled rows are deleted at once: there is nothing to purge",
            remedy='settle = "mark" in [database] keeps them',
        )


def backlog_of(row: Sequence[Any]) -> Backlog:
    """What the statement ``backlog`` tells. A clock that is behind makes no age negative."""
    pending, delayed, parked, age_s = row
    oldest_age_s = None if age_s is None else max(0.0, float(age_s))
    return Backlog(pending=pending, delayed=delayed, parked=parked, oldest_age_s=oldest_age_s)


def shortened(text: str) -> str:
    """An error text or a reason as it is kept: without U+0000, which PostgreSQL refuses, and cut."""
    return text[:ERROR_CHARACTERS_MAX].replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def between(rows: Sequence[tuple[Position, str]]) -> tuple[int, int, str] | None:
    """Rows as the first and the last position, and what stands at each one in between, as text. None: too far apart.

    A scan from the first to the last then finds them all, which costs half of looking up each one.
    """
    ids = {int(position): message_id for position, message_id in rows}
    first, last = min(ids), max(ids)
    if len(ids) < len(rows) or last - first >= _SPREAD_MAX * len(rows) or NOBODY in ids.values():
        return None
    return first, last, f"{{{','.join([ids.get(position, NOBODY) for position in range(first, last + 1)])}}}"


def arrays(pairs: Sequence[tuple[Position, Any]]) -> tuple[str, str]:
    """Pairs as two texts that PostgreSQL reads as arrays."""
    return _array([a for a, _ in pairs]), _array([b for _, b in pairs])


def _array(values: Sequence[Any]) -> str:
    """Texts of somebody else's may be anything; ours, and numbers, need no quotes."""
    listed = ",".join([str(value) for value in values])
    if _BARE.fullmatch(listed) is None:
        escaped = [str(value).replace("\\", "\\\\").replace('"', '\\"') for value in values]
        listed = ",".join([f'"{value}"' for value in escaped])
    return f"{{{listed}}}"
