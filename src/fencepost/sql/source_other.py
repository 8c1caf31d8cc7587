"""The statements of a relay that reads an outbox in Oracle, SQL Server or CockroachDB, as SQLAlchemy Core.

They are SQL that every database knows; what each says in its own way are the clock (``lease``), the locks
(``outbox_other``) and the limit, which SQLAlchemy knows. Many rows at once are a fixed number of parameters, the last
ones repeated, so that a database sees few different texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from fencepost.message import Position
from fencepost.receipt import PositionRange
from fencepost.sql.lease import now, seconds_until
from fencepost.sql.other import UNPARTITIONED
from fencepost.sql.outbox_other import locking
from fencepost.sql.tables import State, Tables

T = TypeVar("T")

AT_ONCE = 64
"""How many rows a statement names."""

_ONE: Any = sa.literal_column("1")


class RelayStatements:
    """Parameters end with a line, so that none is a reserved word. ``dialect`` is SQLAlchemy's word for it."""

    def __init__(self, t: Tables, dialect: str) -> None:
        self._t, self._o = t, t.outbox.c
        self._dialect = dialect
        this = self._this(self._bind("position_"), self._id("id_"))
        failed = {"attempts": self._o.attempts + _ONE, "last_error": sa.bindparam("text_", type_=sa.UnicodeText)}

        self.pending = self._pending(slots=False)
        """(after_, most_): rows in the order of Stored's fields, but with the state at their end."""
        self.pending_in_slots = self._pending(slots=True)
        """(after_, first_, last_, most_)"""
        self.below = self._below(slots=False)
        """(position_, most_)"""
        self.below_in_slots = self._below(slots=True)
        """(position_, first_, last_, most_)"""
        self.settle = sa.delete(t.outbox).where(self._these())
        """(position_0, id_0, ...): see ``named``."""
        self.held = sa.select(self._o.seq, self._o.id).where(self._inside()).order_by(self._o.seq)
        """(first_0, last_0, ...): see ``spans``."""
        self.in_doubt = sa.update(t.outbox).values(state=_state(State.SENDING), token=self._bind("token_")).where(this)
        """(token_, position_, id_)"""
        self.failed = sa.update(t.outbox).values(failed).where(this)
        """(text_, position_, id_)"""
        self.lock = locking(sa.select(self._o.seq).where(this), t.outbox)
        """(position_, id_): the row is locked until the transaction ends."""
        self.forget = sa.delete(t.parked).where(t.parked.c.id == self._id("id_"))
        """(id_): what was parked under this id before."""
        self.park = self._park(this)
        """(text_, position_, id_)"""
        self.remove = sa.delete(t.outbox).where(this)
        """(position_, id_)"""
        self.due = self._due()
        """(most_): the positions of what is due, the longest due first."""
        self.release = self._release()
        """(position_0, ...): see ``named``."""
        self.next_due = sa.select(seconds_until(sa.func.min(self._o.available_at))).where(self._delayed())
        """The seconds until the next one, None for never."""
        self.backlog = self._backlog()
        """pending, delayed, parked, the seconds until the oldest pending one occurred (below 0)."""

    def all(self) -> dict[str, Any]:
        """Every statement by its name."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    # -- parts --------------------------------------------------------------------------------------------------------

    @staticmethod
    def _bind(name: str, kind: Any = sa.BigInteger) -> Any:
        return sa.bindparam(name, type_=kind)

    def _id(self, name: str) -> Any:
        return sa.bindparam(name, type_=self._o.id.type)

    def _this(self, position: Any, message_id: Any) -> Any:
        return sa.and_(self._o.seq == position, self._o.id == message_id)

    def _these(self) -> Any:
        """Twice the positions: by the list the rows are found, by the pairs those with another id are left."""
        pairs = [self._this(self._bind(f"position_{n}"), self._id(f"id_{n}")) for n in range(AT_ONCE)]
        return sa.and_(self._at(), sa.or_(*pairs))

    def _at(self) -> Any:
        return self._o.seq.in_([self._bind(f"position_{n}") for n in range(AT_ONCE)])

    def _inside(self) -> Any:
        spans = [self._o.seq.between(self._bind(f"first_{n}"), self._bind(f"last_{n}")) for n in range(AT_ONCE)]
        return sa.or_(*spans)

    def _delayed(self) -> Any:
        return self._o.state == _state(State.DELAYED)

    def _ready(self) -> Any:
        """Where no index has these rows alone, the one that begins with available_at has them together, in order."""
        ready = self._o.state.in_([_state(State.PENDING), _state(State.SENDING)])
        return sa.and_(self._o.available_at.is_(None), ready) if self._dialect in UNPARTITIONED else ready

    # -- reading ------------------------------------------------------------------------------------------------------

    def _pending(self, *, slots: bool) -> Any:
        o = self._o
        described = (o.seq, o.id, o.topic, o.key, o.version, o.type, o.payload, o.content_type, o.headers)
        query = sa.select(*described, o.occurred_at, o.attempts, o.state).where(o.seq > self._bind("after_"))
        return self._publishable(query, slots=slots)

    def _below(self, *, slots: bool) -> Any:
        return self._publishable(sa.select(self._o.seq).where(self._o.seq <= self._bind("position_")), slots=slots)

    def _publishable(self, query: Any, *, slots: bool) -> Any:
        if slots:
            first, last = (self._bind(name, sa.SmallInteger) for name in ("first_", "last_"))
            query = query.where(self._o.slot.between(first, last))
        return query.where(self._ready()).order_by(self._o.seq).limit(self._bind("most_", sa.Integer))

    def _backlog(self) -> Any:
        o, parked = self._o, sa.select(sa.func.count()).select_from(self._t.parked).scalar_subquery()
        delayed = sa.and_(self._delayed(), o.available_at > now())
        pending = sa.or_(o.state.in_([_state(State.PENDING), _state(State.SENDING)]), self._overdue())
        oldest_s = seconds_until(sa.func.min(sa.case((pending, o.occurred_at))))
        counts = [sa.func.count(sa.case((condition, _ONE))) for condition in (pending, delayed)]
        return sa.select(*counts, parked, oldest_s).select_from(self._t.outbox)

    def _overdue(self) -> Any:
        return sa.and_(self._delayed(), self._o.available_at <= now())

    # -- writing ------------------------------------------------------------------------------------------------------

    def _park(self, this: Any) -> Any:
        parked = self._t.parked
        names = [c.name for c in parked.c if c.name in self._o]
        reason = sa.cast(sa.bindparam("text_", type_=sa.UnicodeText), parked.c.reason.type)
        values = {name: self._o[name] for name in names} | {"attempts": self._o.attempts + _ONE}
        rows = sa.select(reason, now(), *values.values()).where(this)
        return sa.insert(parked).from_select(["reason", "parked_at", *names], rows, include_defaults=False)

    def _due(self) -> Any:
        due = sa.select(self._o.seq).where(self._overdue()).order_by(self._o.available_at)
        return due.limit(self._bind("most_", sa.Integer))

    def _release(self) -> Any:
        pending = {"state": _state(State.PENDING), "available_at": sa.null()}
        return sa.update(self._t.outbox).values(pending).where(self._at(), self._delayed())


def named(rows: Sequence[tuple[Position, str]]) -> dict[str, object]:
    """At most ``AT_ONCE`` rows, as ``settle`` takes them."""
    return _numbered("position_", [int(p) for p, _ in rows]) | _numbered("id_", [message_id for _, message_id in rows])


def placed(positions: Sequence[int]) -> dict[str, object]:
    """At most ``AT_ONCE`` positions, as ``release`` takes them."""
    return _numbered("position_", positions)


def spans(ranges: Sequence[PositionRange]) -> dict[str, object]:
    """At most ``AT_ONCE`` ranges, as ``held`` takes them."""
    return _numbered("first_", [int(first) for first, _ in ranges]) | _numbered(
        "last_", [int(last) for _, last in ranges]
    )


def some(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut into what fits into a statement."""
    return (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))


def _numbered(name: str, items: Sequence[object]) -> dict[str, object]:
    return {f"{name}{n}": item for n, item in enumerate([*items, *[items[-1]] * (AT_ONCE - len(items))])}


def _state(state: State) -> Any:
    return sa.literal_column(str(int(state)))
