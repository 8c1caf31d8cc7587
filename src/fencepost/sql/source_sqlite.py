"""The statements of a reading relay, as SQLite takes them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from fencepost.sql.source_texts import SourceTexts
from fencepost.sql.tables import State


class SqliteTexts(SourceTexts):
    """One row at a time, times as text, ranges as JSON."""

    def _own(self) -> dict[str, str]:
        return {
            "settle": self._text(self._settled(self._this_row()), "position", "message_id"),
            "held": self._held(),
            "in_doubt": self._in_doubt(),
            "release_due": self._release_due(),
        }

    @property
    def _now(self) -> Any:
        return sa.literal_column("strftime('%Y-%m-%d %H:%M:%f000', 'now')")

    def _before(self, ago_us: Any) -> Any:
        shift = (
            sa.literal_column("'-'")
            .op("||")(ago_us / sa.literal_column("1e6"))
            .op("||")(sa.literal_column("' seconds'"))
        )
        return sa.func.strftime(sa.literal_column("'%Y-%m-%d %H:%M:%f000'"), sa.literal_column("'now'"), shift)

    def _purging(self) -> dict[str, str]:
        # Not WITH ... DELETE, of which Python's driver does not tell how many rows there were.
        purge = sa.delete(self._t.outbox).where(self._o.seq.in_(self._oldest_settled()))
        return {
            "purgeable": self._text(self._purgeable(sa.func.count()), "ago_us"),
            "purge": self._text(purge, "ago_us", "most"),
        }

    def _seconds(self, later: Any, earlier: Any) -> Any:
        day = sa.func.julianday
        return (day(later) - day(earlier)) * sa.literal_column("86400.0")

    def _columns(self) -> list[Any]:
        o = self._o
        occurred_at = o.occurred_at.op("||")(sa.literal_column("'+00:00'")).label("occurred_at")
        described = [o.seq, o.id, o.topic, o.key, self._version(), o.type]
        return [*described, o.payload, o.content_type, o.headers, occurred_at, o.attempts, self._is_in_doubt()]

    def _held(self) -> str:
        given = sa.func.json_each(self._bind("ranges", sa.Text)).table_valued("value", name="given")
        first, last = (sa.func.json_extract(given.c.value, sa.literal_column(f"'$[{i}]'")) for i in (0, 1))
        query = sa.select(self._o.seq, self._o.id).select_from(
            given.join(self._t.outbox, self._o.seq.between(first, last))
        )
        return self._text(query.where(self._waits()).order_by(self._o.seq), "ranges")

    def _in_doubt(self) -> str:
        update = sa.update(self._t.outbox).values(state=self._state(State.SENDING), token=self._bind("owner_token"))
        return self._text(update.where(self._this_row()), "owner_token", "position", "message_id")

    def _park(self, names: list[str], rows: Any) -> Any:
        parked = self._t.parked
        insert = sqlite.insert(parked).from_select(names, rows, include_defaults=False)
        changes = {c.name: insert.excluded[c.name] for c in parked.c if not c.primary_key}
        return insert.on_conflict_do_update(index_elements=[parked.c.id], set_=changes)

    def _release_due(self) -> str:
        chosen = self._due().cte("due").prefix_with("MATERIALIZED")
        update = sa.update(self._t.outbox).values(state=self._state(State.PENDING))
        return self._text(update.where(self._o.seq.in_(sa.select(chosen.c.seq))), "most")
