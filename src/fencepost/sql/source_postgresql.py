"""The statements of a reading relay, as PostgreSQL takes them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from fencepost.sql.source_texts import SourceTexts
from fencepost.sql.tables import State

NOBODY = "00000000-0000-0000-0000-000000000000"
"""Where no id stands: an array with NULL in it is searched from its beginning each time."""


class PostgresqlTexts(SourceTexts):
    """Many rows at once, as arrays; and what tells writers that a relay sleeps."""

    def _own(self) -> dict[str, str]:
        return {
            "settle": self._settle(),
            "settle_between": self._settle_between(),
            "held": self._held(),
            "in_doubt": self._in_doubt(),
            "release_due": self._release_due(),
            "set_asleep": self._set_asleep(),
        }

    @property
    def _now(self) -> Any:
        return sa.literal_column("now()")

    def _before(self, ago_us: Any) -> Any:
        return self._now - ago_us * sa.literal_column("interval '1 microsecond'")

    def _seconds(self, later: Any, earlier: Any) -> Any:
        return sa.cast(sa.extract("epoch", later - earlier), sa.Double)

    def _columns(self) -> list[Any]:
        o = self._o
        message_id = sa.cast(o.id, sa.Text)  # cheaper than to make a UUID of it first
        headers = sa.cast(o.headers, postgresql.JSON)
        described = [o.seq, message_id, o.topic, o.key, self._version(), o.type]
        return [*described, o.payload, o.content_type, headers, o.occurred_at, o.attempts, self._is_in_doubt()]

    def _given(self, **columns: Any) -> Any:
        """Arrays, given as text, as rows."""
        values = [sa.cast(self._bind(f"{name}s", sa.Text), postgresql.ARRAY(kind)) for name, kind in columns.items()]
        fields = [sa.column(name, kind) for name, kind in columns.items()]
        return sa.func.unnest(*values).table_valued(*fields, name="given").render_derived()

    def _these_rows(self) -> Any:
        given = self._given(seq=sa.BigInteger(), id=sa.Uuid(as_uuid=False))
        return sa.and_(self._o.seq == given.c.seq, self._o.id == given.c.id, self._waits())

    def _held(self) -> str:
        given = self._given(first=sa.BigInteger(), last=sa.BigInteger())
        query = sa.select(self._o.seq, sa.cast(self._o.id, sa.Text))
        query = query.select_from(given.join(self._t.outbox, self._o.seq.between(given.c.first, given.c.last)))
        query = query.where(self._waits())
        return self._text(query.order_by(self._o.seq), "firsts", "lasts")

    def _settle(self) -> str:
        return self._text(self._settled(self._these_rows()), "seqs", "ids")

    def _settle_between(self) -> str:
        o, first = self._o, self._bind("first")
        # In a query of its own the text is read once, not once for each row.
        ids = sa.select(sa.cast(self._bind("ids", sa.Text), postgresql.ARRAY(o.id.type))).scalar_subquery()
        named = sa.type_coerce(ids, postgresql.ARRAY(o.id.type))[o.seq - first + sa.literal_column("1")]
        somebody = o.id != sa.literal_column(f"'{NOBODY}'")
        rows = sa.and_(o.seq.between(first, self._bind("last")), o.id == named, somebody, self._waits())
        return self._text(self._settled(rows), "first", "last", "ids")

    def _purging(self) -> dict[str, str]:
        chosen = self._oldest_settled().with_for_update(skip_locked=True).cte("old").prefix_with("MATERIALIZED")
        purge = sa.delete(self._t.outbox).where(self._o.seq.in_(sa.select(chosen.c.seq)))
        return {
            "purgeable": self._text(self._purgeable(sa.func.count()), "ago_us"),
            "purge": self._text(purge, "ago_us", "most"),
        }

    def _in_doubt(self) -> str:
        update = sa.update(self._t.outbox).values(state=self._state(State.SENDING), token=self._bind("owner_token"))
        return self._text(update.where(self._these_rows()), "owner_token", "seqs", "ids")

    def _park(self, names: list[str], rows: Any) -> Any:
        parked = self._t.parked
        insert = postgresql.insert(parked).from_select(names, rows, include_defaults=False)
        changes = {c.name: insert.excluded[c.name] for c in parked.c if not c.primary_key}
        return insert.on_conflict_do_update(index_elements=[parked.c.id], set_=changes)

    def _release_due(self) -> str:
        chosen = self._due().with_for_update(skip_locked=True).cte("due").prefix_with("MATERIALIZED")
        seqs = sa.select(chosen.c.seq)
        update = sa.update(self._t.outbox).values(state=self._state(State.PENDING)).where(self._o.seq.in_(seqs))
        # The main query does not see what the update does: it leaves out the same rows.
        return self._text(self._until_due().where(self._o.seq.not_in(seqs)).add_cte(update.cte("released")), "most")

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
