"""What a person does with parked messages: have them tried again, or give them up. Flows, for any driver.

A message that is tried again goes to the end of its key, because its key has gone on without it. It keeps its id, its
version and its time, so that a reader which knows a newer version does not take it for news, and it is marked: its
header ``fencepost-retried`` counts how often this was done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from fencepost.errors import SchemaMissing
from fencepost.sql.faults import fault_of
from fencepost.sql.outbox import COLUMNS, channel, waking
from fencepost.sql.statements import Prepared, prepare
from fencepost.sql.tables import State, Tables, tables
from fencepost.sql.transaction import Call, Work

RETRIED = "fencepost-retried"
"""The header that marks a message which was parked and then tried again."""

_compiled: dict[tuple[object, ...], ParkedStatements] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedStatements:
    """The compiled statements of one dialect and one outbox. ``id`` is the message's."""

    copy_back: Prepared
    """(id): the message waits again; returns (seq, ...), or no row where it is not parked (any more)."""
    headers: Prepared
    """(position): the headers of the message that waits there."""
    mark: Prepared
    """(new, position): gives that message these headers."""
    find: Prepared | None
    """(id): returns (id), or no row, and locks it. None where ``remove`` tells as much."""
    remove: Prepared
    """(id): returns (id), or no row."""


@dataclass(frozen=True, slots=True)
class ParkedMessages:
    """The parked messages of one outbox. Every flow runs inside one transaction of the caller's."""

    schema: str | None = None
    prefix: str = "fencepost_"

    def retry(self, dialect: Dialect, ids: Iterable[str]) -> Work[list[str]]:
        """Put messages to the end of their keys, in the order given. Returns the ids of those that were parked.

        Two that do this at once for one message: one of them does it. Raises SchemaMissing and what the driver raises.
        """
        return (yield from self._each(dialect, ids, _retry))

    def discard(self, dialect: Dialect, ids: Iterable[str]) -> Work[list[str]]:
        """Remove messages for good. Returns the ids of those that were parked. Raises what ``retry`` raises."""
        return (yield from self._each(dialect, ids, _discard))

    def _each(self, dialect: Dialect, ids: Iterable[str], work: Any) -> Work[list[str]]:
        statements = self._statements(dialect)
        done = []
        try:
            for message_id in ids:
                if (yield from work(statements, message_id)):
                    done.append(message_id)
        except Exception as error:
            fault = fault_of(error, f"the tables {self.prefix}outbox and {self.prefix}parked")
            if isinstance(fault, SchemaMissing):
                raise fault from error
            raise
        return done

    def _statements(self, dialect: Dialect) -> ParkedStatements:
        name = (type(dialect), dialect.paramstyle, self)
        if name not in _compiled:
            _compiled[name] = parked_statements(dialect, schema=self.schema, prefix=self.prefix)
        return _compiled[name]


def parked_statements(dialect: Dialect, *, schema: str | None, prefix: str) -> ParkedStatements:
    """Compile the statements."""
    t = tables(schema=schema, prefix=prefix)
    o, position = t.outbox, sa.bindparam("position", type_=sa.BigInteger)
    returning = dialect.name in {"postgresql", "sqlite"}
    forms: dict[str, Any] = {
        "copy_back": _copy_back(t, dialect, channel(schema, prefix)),
        "headers": sa.select(o.c.headers).where(o.c.seq == position),
        "mark": sa.update(o).values(headers=sa.bindparam("new", type_=sa.Text)).where(o.c.seq == position),
        "find": None if returning else sa.select(t.parked.c.id).where(_this(t)).with_for_update(),
        "remove": sa.delete(t.parked).where(_this(t)),
    }
    if returning:  # there a driver fetches rows of every statement
        forms["mark"] = forms["mark"].returning(o.c.seq)
        forms["remove"] = forms["remove"].returning(t.parked.c.id)
    prepared: dict[str, Any] = {name: form if form is None else prepare(form, dialect) for name, form in forms.items()}
    return ParkedStatements(**prepared)


def _copy_back(t: Tables, dialect: Dialect, name: str) -> Any:
    """An INSERT first: in SQLite it takes the write lock before anything is read."""
    parked = t.parked.c
    # Where no number is stored the position was the version: it must not become a new one.
    version = sa.case((parked.key.is_not(None), sa.func.coalesce(parked.version, parked.seq)))
    instead = {"version": version, "state": sa.literal_column(str(int(State.PENDING)))}
    columns = [instead[name] if name in instead else parked[name] for name in COLUMNS]
    rows = sa.select(*columns).where(_this(t)).with_for_update()
    insert = sa.insert(t.outbox).from_select(list(COLUMNS), rows, include_defaults=False)
    if dialect.name == "postgresql":
        return waking(insert, t, name, t.outbox.c.seq)
    return insert.returning(t.outbox.c.seq) if dialect.name == "sqlite" else insert


def _this(t: Tables) -> Any:
    return t.parked.c.id == sa.bindparam("id", type_=t.parked.c.id.type)


def _retry(statements: ParkedStatements, message_id: str) -> Work[bool]:
    rows = yield Call(statements.copy_back, {"id": message_id})
    if not rows:
        return False
    position = rows[0][0]
    ((headers,),) = yield Call(statements.headers, {"position": position})
    yield Call(statements.mark, {"position": position, "new": _marked(headers)})
    yield Call(statements.remove, {"id": message_id})
    return True


def _discard(statements: ParkedStatements, message_id: str) -> Work[bool]:
    if statements.find is not None and not (yield Call(statements.find, {"id": message_id})):
        return False
    rows = yield Call(statements.remove, {"id": message_id})
    return statements.find is not None or bool(rows)


def _marked(headers: str | None) -> str:
    """Headers as they are stored, with the mark."""
    given = json.loads(headers) if headers else {}
    given[RETRIED] = str(int(given.get(RETRIED, "0")) + 1)
    return json.dumps(given, ensure_ascii=False, separators=(",", ":"))
