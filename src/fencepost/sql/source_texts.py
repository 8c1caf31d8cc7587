"""What the statements of a reading relay have in common; each dialect writes the rest in a module of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from fencepost.sql.statements import prepare
from fencepost.sql.tables import State, Tables


class SourceTexts(ABC):
    """Writes the statements of one dialect, by their names in ``SourceStatements``."""

    def __init__(self, t: Tables, dialect: Dialect) -> None:
        self._t, self._o, self._dialect = t, t.outbox.c, dialect
        self._marked = "settled_at" in t.outbox.c

    def all(self) -> dict[str, str]:
        return {
            "pending": self._pending(slots=False),
            "pending_in_slots": self._pending(slots=True),
            "below": self._below(slots=False),
            "below_in_slots": self._below(slots=True),
            "failed": self._failed(),
            "copy_to_parked": self._copy_to_parked(),
            "remove": self._remove(),
            "next_due": self._text(self._until_due()),
            "backlog": self._backlog(),
            **self._own(),
            **(self._purging() if self._marked else {}),
        }

    @abstractmethod
    def _own(self) -> dict[str, str]:
        """What each dialect does in its own way."""

    @abstractmethod
    def _purging(self) -> dict[str, str]:
        """How settled rows are removed."""

    @property
    @abstractmethod
    def _now(self) -> Any:
        """The database's clock, in the form in which times are stored."""

    @abstractmethod
    def _seconds(self, later: Any, earlier: Any) -> Any:
        """From one time to another."""

    @abstractmethod
    def _before(self, ago_us: Any) -> Any:
        """So many microseconds ago, in the form in which times are stored."""

    @abstractmethod
    def _columns(self) -> list[Any]:
        """In the order of Stored's fields."""

    @abstractmethod
    def _park(self, names: list[str], rows: Any) -> Any:
        """Insert these rows, or replace those that have the same id."""

    # -- parts --------------------------------------------------------------------------------------------------------

    def _text(self, statement: Any, *arguments: str) -> str:
        prepared = prepare(statement, self._dialect)
        if prepared.names != arguments:
            raise ValueError(f"the statement takes {prepared.names}, not {arguments}: {prepared.text}")
        return prepared.text

    @staticmethod
    def _bind(name: str, kind: Any = sa.BigInteger) -> Any:
        return sa.bindparam(name, type_=kind)

    @staticmethod
    def _state(state: State) -> Any:
        return sa.literal_column(str(int(state)))  # a literal, so that the planner may use the partial index

    def _this_row(self) -> Any:
        o = self._o
        here = sa.and_(o.seq == self._bind("position"), o.id == sa.bindparam("message_id", type_=o.id.type))
        return sa.and_(here, self._waits())

    def _waits(self) -> Any:
        """Not settled. Where settled rows are deleted nothing need be asked."""
        return self._o.state != self._state(State.SETTLED) if self._marked else sa.true()

    def _settled(self, where: Any) -> Any:
        """The statement that settles these rows."""
        if not self._marked:
            return sa.delete(self._t.outbox).where(where)
        return sa.update(self._t.outbox).values(state=self._state(State.SETTLED), settled_at=self._now).where(where)

    def _purgeable(self, *columns: Any) -> Any:
        """What was settled longer ago than so many microseconds."""
        o = self._o
        old = o.settled_at < self._before(self._bind("ago_us"))
        return sa.select(*columns).select_from(self._t.outbox).where(o.state == self._state(State.SETTLED), old)

    def _oldest_settled(self) -> Any:
        """Their positions, the oldest first."""
        return self._limited(self._purgeable(self._o.seq).order_by(self._o.settled_at), self._bind("most"))

    def _version(self) -> Any:
        o = self._o
        return sa.case((o.key.is_not(None), sa.func.coalesce(o.version, o.seq))).label("version")

    def _is_in_doubt(self) -> Any:
        return (self._o.state == self._state(State.SENDING)).label("in_doubt")

    def _looked_up(self, query: Any) -> Any:
        """Rows of the outbox are found by position, where the database has to be told that."""
        return query

    def _limited(self, query: Any, limit: Any) -> Any:
        return query.limit(limit).offset(sa.literal_column("0"))

    # -- reading ------------------------------------------------------------------------------------------------------

    def _pending(self, *, slots: bool) -> str:
        query = sa.select(*self._columns()).where(self._o.seq > self._bind("after"))
        return self._publishable(query, "after", slots=slots)

    def _below(self, *, slots: bool) -> str:
        query = sa.select(self._o.seq).where(self._o.seq <= self._bind("position"))
        return self._publishable(query, "position", slots=slots)

    def _publishable(self, query: Any, bound: str, *, slots: bool) -> str:
        o = self._o
        if slots:
            query = query.where(
                o.slot.between(self._bind("first", sa.SmallInteger), self._bind("last", sa.SmallInteger))
            )
        query = query.where(o.state.in_(self._ready()))
        query = self._limited(query.order_by(o.seq), self._bind("most"))
        return self._text(query, bound, *(("first", "last") if slots else ()), "most")

    def _backlog(self) -> str:
        rows = self._waiting()
        o = rows.c
        is_delayed = o.state == self._state(State.DELAYED)
        delayed = sa.and_(is_delayed, o.available_at > self._now)
        pending = sa.or_(o.state.in_(self._ready()), sa.and_(is_delayed, o.available_at <= self._now))
        parked = sa.select(sa.func.count()).select_from(self._t.parked).scalar_subquery()
        oldest = sa.func.min(sa.case((pending, o.occurred_at)))
        one: Any = sa.literal_column("1")
        counts = [sa.func.count(sa.case((condition, one))) for condition in (pending, delayed)]
        return self._text(sa.select(*counts, parked, self._seconds(self._now, oldest)).select_from(rows))

    def _ready(self) -> list[Any]:
        return [self._state(State.PENDING), self._state(State.SENDING)]

    def _waiting(self) -> Any:
        """The rows that are not settled, by the indexes that have no others."""
        if not self._marked:
            return self._t.outbox
        o = self._o
        columns = [o.state, o.available_at, o.occurred_at]
        ready = sa.select(*columns).where(o.state.in_(self._ready()))
        delayed = sa.select(*columns).where(o.state == self._state(State.DELAYED))
        return sa.union_all(ready, delayed).subquery("waiting")

    # -- writing ------------------------------------------------------------------------------------------------------

    def _remove(self) -> str:
        return self._text(sa.delete(self._t.outbox).where(self._this_row()), "position", "message_id")

    def _failed(self) -> str:
        values = {"attempts": self._o.attempts + sa.literal_column("1"), "last_error": self._bind("error", sa.Text)}
        update = sa.update(self._t.outbox).values(values).where(self._this_row())
        return self._text(update, "error", "position", "message_id")

    def _copy_to_parked(self) -> str:
        parked = self._t.parked
        names = [c.name for c in parked.c if c.name in self._o]
        reason = sa.cast(self._bind("reason", sa.Text), sa.Text)
        # Locked, so that a row which somebody settles at this moment is not parked as well.
        values = {name: self._o[name] for name in names} | {"attempts": self._o.attempts + sa.literal_column("1")}
        rows = self._looked_up(sa.select(reason, self._now, *values.values())).where(self._this_row())
        insert = self._park(["reason", "parked_at", *names], rows.with_for_update())
        return self._text(insert, "reason", "position", "message_id")

    # -- delayed messages ---------------------------------------------------------------------------------------------

    def _until_due(self) -> Any:
        o = self._o
        delayed = o.state == self._state(State.DELAYED)
        query = sa.select(self._seconds(o.available_at, self._now).label("seconds")).where(delayed)
        return self._limited(query.order_by(o.available_at), sa.literal_column("1"))

    def _due(self) -> Any:
        """The positions of what is due, the longest due first."""
        o = self._o
        due = sa.select(o.seq).where(o.state == self._state(State.DELAYED), o.available_at <= self._now)
        return self._limited(due.order_by(o.available_at), self._bind("most"))
