"""The statements of a relay that reads an outbox: the same for all SQL databases, as texts of each dialect.

PostgreSQL is given many rows as two arrays, written as text: a driver encodes one text faster than 2,000 elements.
SQLite is given them one at a time, which costs no round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

from fencepost.errors import ConfigurationError
from fencepost.message import Position
from fencepost.sql.statements import prepare
from fencepost.sql.tables import State, Tables

ERROR_CHARACTERS_MAX = 4_000
"""Longer error texts and reasons are cut."""

LOWEST = -(2**63)
"""Below every position."""

_SPREAD_MAX = 4
_NOBODY = "00000000-0000-0000-0000-000000000000"  # an array with NULL in it is searched from its beginning each time


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatements:
    """The statements, each with the arguments that it takes, in order.

    ``seqs``, ``ids``, ``firsts`` and ``lasts`` are arrays as text; ``ranges`` is JSON, [[first, last], ...].
    """

    pending: str  # (after, limit)
    pending_in_slots: str  # (after, first_slot, last_slot, limit)
    below: str  # (position, limit)
    below_in_slots: str  # (position, first_slot, last_slot, limit)
    settle: str  # PostgreSQL (seqs, ids), SQLite (position, id)
    settle_between: str  # (first, last, ids): see ``between``; PostgreSQL only, "" elsewhere
    held: str  # PostgreSQL (firsts, lasts), SQLite (ranges)
    in_doubt: str  # PostgreSQL (token, seqs, ids), SQLite (token, position, id)
    failed: str  # (error, position, id)
    copy_to_parked: str  # (reason, position, id)
    remove: str  # (position, id)
    release_due: str  # (limit); PostgreSQL returns the seconds until the next one, or no row
    next_due: str  # (): the seconds until the next one, or no row
    backlog: str  # (): pending, delayed, parked, age of the oldest pending one in seconds
    set_asleep: str  # (relay, lane, first_slot, last_slot, asleep); PostgreSQL only, "" elsewhere


def source_statements(t: Tables, dialect: Dialect) -> SourceStatements:
    """Compile the statements. Raises ConfigurationError for a database that cannot hold an outbox."""
    if dialect.name not in {"postgresql", "sqlite"}:
        raise ConfigurationError(f"an outbox cannot be kept in {dialect.name!r}", remedy="use postgresql or sqlite")
    return _Writer(t, dialect).all()


def shortened(text: str) -> str:
    """An error text or a reason as it is kept: without U+0000, which PostgreSQL refuses, and cut."""
    return text[:ERROR_CHARACTERS_MAX].replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def between(rows: Sequence[tuple[Position, str]]) -> tuple[int, int, str] | None:
    """Rows as the first and the last position, and what stands at each one in between, as text. None: too far apart.

    A scan from the first to the last then finds them all, which costs half of looking up each one.
    """
    ids = {int(position): message_id for position, message_id in rows}
    first, last = min(ids), max(ids)
    if len(ids) < len(rows) or last - first >= _SPREAD_MAX * len(rows) or _NOBODY in ids.values():
        return None
    return first, last, f"{{{','.join([ids.get(position, _NOBODY) for position in range(first, last + 1)])}}}"


def arrays(pairs: Sequence[tuple[Position, Any]]) -> tuple[str, str]:
    """Pairs as two texts that PostgreSQL reads as arrays."""
    return f"{{{','.join([str(a) for a, _ in pairs])}}}", f"{{{','.join([str(b) for _, b in pairs])}}}"


class _Writer:
    """Writes the statements of one dialect."""

    def __init__(self, t: Tables, dialect: Dialect) -> None:
        self._t, self._o, self._dialect = t, t.outbox.c, dialect
        self._native = dialect.name == "postgresql"

    def all(self) -> SourceStatements:
        return SourceStatements(
            pending=self._pending(slots=False),
            pending_in_slots=self._pending(slots=True),
            below=self._below(slots=False),
            below_in_slots=self._below(slots=True),
            settle=self._settle() if self._native else self._remove(),
            settle_between=self._settle_between() if self._native else "",
            held=self._held() if self._native else self._held_json(),
            in_doubt=self._in_doubt(),
            failed=self._failed(),
            copy_to_parked=self._copy_to_parked(),
            remove=self._remove(),
            release_due=self._release_due(),
            next_due=self._text(self._until_due()),
            backlog=self._backlog(),
            set_asleep=self._set_asleep() if self._native else "",
        )

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

    @property
    def _now(self) -> Any:
        """The database's clock, in the form in which times are stored."""
        if self._native:
            return sa.literal_column("now()")
        return sa.literal_column("strftime('%Y-%m-%d %H:%M:%f000', 'now')")

    def _seconds(self, later: Any, earlier: Any) -> Any:
        if self._native:
            return sa.cast(sa.extract("epoch", later - earlier), sa.Double)
        day = sa.func.julianday
        return (day(later) - day(earlier)) * sa.literal_column("86400.0")

    def _this_row(self) -> Any:
        o = self._o
        return sa.and_(o.seq == self._bind("position"), o.id == sa.bindparam("message_id", type_=o.id.type))

    def _given(self, **columns: Any) -> Any:
        """Arrays, given as text, as rows."""
        values = [sa.cast(self._bind(f"{name}s", sa.Text), postgresql.ARRAY(kind)) for name, kind in columns.items()]
        fields = [sa.column(name, kind) for name, kind in columns.items()]
        return sa.func.unnest(*values).table_valued(*fields, name="given").render_derived()

    def _given_rows(self) -> tuple[Any, Any]:
        given = self._given(seq=sa.BigInteger(), id=sa.Uuid(as_uuid=False))
        return given, sa.and_(self._o.seq == given.c.seq, self._o.id == given.c.id)

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
        query = query.where(o.state.in_([self._state(State.PENDING), self._state(State.SENDING)]))
        query = query.order_by(o.seq).limit(self._bind("most")).offset(sa.literal_column("0"))
        return self._text(query, bound, *(("first", "last") if slots else ()), "most")

    def _columns(self) -> list[Any]:
        """In the order of Stored's fields."""
        o = self._o
        return [
            o.seq,
            sa.cast(o.id, sa.Text) if self._native else o.id,  # cheaper than to make a UUID of it first
            o.topic,
            o.key,
            sa.case((o.key.is_not(None), sa.func.coalesce(o.version, o.seq))).label("version"),
            o.type,
            o.payload,
            o.content_type,
            sa.cast(o.headers, postgresql.JSON) if self._native else o.headers,
            o.occurred_at
            if self._native
            else o.occurred_at.op("||")(sa.literal_column("'+00:00'")).label("occurred_at"),
            o.attempts,
            (o.state == self._state(State.SENDING)).label("in_doubt"),
        ]

    def _held(self) -> str:
        given = self._given(first=sa.BigInteger(), last=sa.BigInteger())
        query = sa.select(self._o.seq, sa.cast(self._o.id, sa.Text))
        query = query.select_from(given.join(self._t.outbox, self._o.seq.between(given.c.first, given.c.last)))
        return self._text(query.order_by(self._o.seq), "firsts", "lasts")

    def _held_json(self) -> str:
        given = sa.func.json_each(self._bind("ranges", sa.Text)).table_valued("value", name="given")
        first, last = (sa.func.json_extract(given.c.value, sa.literal_column(f"'$[{i}]'")) for i in (0, 1))
        query = sa.select(self._o.seq, self._o.id).select_from(
            given.join(self._t.outbox, self._o.seq.between(first, last))
        )
        return self._text(query.order_by(self._o.seq), "ranges")

    def _backlog(self) -> str:
        o = self._o
        delayed = sa.and_(o.state == self._state(State.DELAYED), o.available_at > self._now)
        pending = sa.or_(o.state != self._state(State.DELAYED), o.available_at <= self._now)
        parked = sa.select(sa.func.count()).select_from(self._t.parked).scalar_subquery()
        oldest = sa.func.min(o.occurred_at).filter(pending)
        count = sa.func.count()
        return self._text(
            sa.select(
                count.filter(pending), count.filter(delayed), parked, self._seconds(self._now, oldest)
            ).select_from(self._t.outbox)
        )

    # -- writing ------------------------------------------------------------------------------------------------------

    def _settle(self) -> str:
        _, same = self._given_rows()
        return self._text(sa.delete(self._t.outbox).where(same), "seqs", "ids")

    def _settle_between(self) -> str:
        o, first = self._o, self._bind("first")
        # In a query of its own the text is read once, not once for each row.
        ids = sa.select(sa.cast(self._bind("ids", sa.Text), postgresql.ARRAY(o.id.type))).scalar_subquery()
        named = sa.type_coerce(ids, postgresql.ARRAY(o.id.type))[o.seq - first + sa.literal_column("1")]
        somebody = o.id != sa.literal_column(f"'{_NOBODY}'")
        rows = sa.and_(o.seq.between(first, self._bind("last")), o.id == named, somebody)
        return self._text(sa.delete(self._t.outbox).where(rows), "first", "last", "ids")

    def _remove(self) -> str:
        return self._text(sa.delete(self._t.outbox).where(self._this_row()), "position", "message_id")

    def _in_doubt(self) -> str:
        update = sa.update(self._t.outbox).values(state=self._state(State.SENDING), token=self._bind("owner_token"))
        if self._native:
            return self._text(update.where(self._given_rows()[1]), "owner_token", "seqs", "ids")
        return self._text(update.where(self._this_row()), "owner_token", "position", "message_id")

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
        rows = sa.select(reason, self._now, *values.values()).where(self._this_row()).with_for_update()
        make: Any = postgresql.insert if self._native else sqlite.insert
        insert = make(parked).from_select(["reason", "parked_at", *names], rows, include_defaults=False)
        changes = {c.name: insert.excluded[c.name] for c in parked.c if not c.primary_key}
        insert = insert.on_conflict_do_update(index_elements=[parked.c.id], set_=changes)
        return self._text(insert, "reason", "position", "message_id")

    # -- delayed messages ---------------------------------------------------------------------------------------------

    def _until_due(self) -> Any:
        o = self._o
        delayed = o.state == self._state(State.DELAYED)
        query = sa.select(self._seconds(o.available_at, self._now).label("seconds")).where(delayed)
        return query.order_by(o.available_at).limit(sa.literal_column("1")).offset(sa.literal_column("0"))

    def _release_due(self) -> str:
        o = self._o
        due = sa.select(o.seq).where(o.state == self._state(State.DELAYED), o.available_at <= self._now)
        due = due.order_by(o.available_at).limit(self._bind("most")).offset(sa.literal_column("0"))
        chosen = due.with_for_update(skip_locked=True).cte("due").prefix_with("MATERIALIZED")
        seqs = sa.select(chosen.c.seq)
        update = sa.update(self._t.outbox).values(state=self._state(State.PENDING)).where(o.seq.in_(seqs))
        if not self._native:
            return self._text(update, "most")
        # The main query does not see what the update does: it leaves out the same rows.
        return self._text(self._until_due().where(o.seq.not_in(seqs)).add_cte(update.cte("released")), "most")

    # -- wake-up ------------------------------------------------------------------------------------------------------

    def _set_asleep(self) -> str:
        """Only a hint: a crash of the server may forget it, so that its commit need not wait for the disk."""
        lane = self._t.lane
        lazily: Any = sa.literal_column("set_config('synchronous_commit', 'off', true) = 'off'")
        rows = sa.select(*(sa.cast(self._bind(c.name, c.type), c.type) for c in lane.c)).where(lazily)
        insert = postgresql.insert(lane).from_select([c.name for c in lane.c], rows)
        values = {c.name: insert.excluded[c.name] for c in lane.c if not c.primary_key}
        changed = sa.or_(*(lane.c[name].is_distinct_from(value) for name, value in values.items()))
        insert = insert.on_conflict_do_update(index_elements=list(lane.primary_key), set_=values, where=changed)
        return self._text(insert, *(c.name for c in lane.c))
