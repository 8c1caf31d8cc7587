"""The statements of a reading relay, as MariaDB and MySQL take them.

Reads lock nothing. Writes look rows up by primary key, one by one, whatever the optimizer believes about the table: a
scan would wait for the rows of transactions that are still open.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from fencepost.sql.source_texts import SourceTexts
from fencepost.sql.tables import State, settled_index

_SEQ = "seq BIGINT PATH"
_ROWS = f"{_SEQ} '$[0]', id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$[1]'"

_RANGES = "first BIGINT PATH '$[0]', last BIGINT PATH '$[1]'"

_BY_KEY = "FORCE INDEX (PRIMARY)"


class MariadbTexts(SourceTexts):
    """Many rows at once, as one JSON that is joined in its order: SQLAlchemy has no words for that."""

    def _own(self) -> dict[str, str]:
        these = self._joined(_ROWS, "o.seq = given.seq AND o.id = given.id")
        named = self._joined(f"{_SEQ} '$'", "o.seq = given.seq")
        ranges = self._joined(_RANGES, "o.seq BETWEEN given.first AND given.last")
        # Whatever has no time (any more) is read: also a row that somebody has given one without delaying it.
        state = f"CASE WHEN o.state = {int(State.DELAYED)} THEN {int(State.PENDING)} ELSE o.state END"
        released = f"o.state = {state}, o.available_at = NULL WHERE o.available_at IS NOT NULL"
        settled = f"o.state = {int(State.SETTLED)}, o.settled_at = UTC_TIMESTAMP(6), o.available_at = NULL"
        waits = f" WHERE o.state <> {int(State.SETTLED)}" if self._marked else ""
        return {
            "settle": f"UPDATE {these} SET {settled}{waits}" if self._marked else f"DELETE o FROM {these}",  # noqa: S608
            "held": f"SELECT o.seq, o.id FROM {ranges}{waits}",  # noqa: S608 - our own names, quoted
            "held_at": f"SELECT o.seq, o.id FROM {named}{waits}",  # noqa: S608
            "in_doubt": f"UPDATE {these} SET o.state = {int(State.SENDING)}, o.token = ?{waits}",  # noqa: S608
            "due": self._text(self._due(), "most"),
            "release_due": f"UPDATE {named} SET {released}",  # noqa: S608
        }

    def _joined(self, columns: str, condition: str) -> str:
        given = f"JSON_TABLE(?, '$[*]' COLUMNS ({columns})) AS given"
        return f"{given} STRAIGHT_JOIN {self._outbox} AS o {_BY_KEY} ON {condition}"

    @property
    def _outbox(self) -> str:
        return self._dialect.identifier_preparer.format_table(self._t.outbox)

    @property
    def _now(self) -> Any:
        return sa.literal_column("UTC_TIMESTAMP(6)")

    def _before(self, ago_us: Any) -> Any:
        return sa.func.timestampadd(sa.literal_column("MICROSECOND"), -ago_us, self._now)

    def _seconds(self, later: Any, earlier: Any) -> Any:
        return self._microseconds(later, earlier) / sa.literal_column("1e6")

    @staticmethod
    def _microseconds(later: Any, earlier: Any) -> Any:
        return sa.func.timestampdiff(sa.literal_column("MICROSECOND"), earlier, later)

    def _columns(self) -> list[Any]:
        o = self._o
        occurred_us = self._microseconds(o.occurred_at, sa.literal_column("'1970-01-01'")).label("occurred_us")
        described = [o.seq, o.id, o.topic, o.key, self._version(), o.type]
        return [*described, o.payload, o.content_type, o.headers, occurred_us, o.attempts, self._is_in_doubt()]

    def _publishable(self, query: Any, bound: str, *, slots: bool) -> str:
        read = self._unsettled(query).where(self._o.available_at.is_(None)) if self._marked else self._undelayed(query)
        return super()._publishable(read, bound, slots=slots)

    def _undelayed(self, query: Any) -> Any:
        """The same of those without an available_at: a read of the table would pass every delayed row, each time."""
        return self._by(query, self._due_index).where(self._o.available_at.is_(None))

    def _unsettled(self, query: Any) -> Any:
        """The rows without a settled_at stand together in its index; of these, those without an available_at in the
        order of their positions.
        """
        return self._by(query, self._settled_index).where(self._o.settled_at.is_(None))

    def _waiting(self) -> Any:
        if not self._marked:
            return self._t.outbox
        o = self._o
        return self._unsettled(sa.select(o.state, o.available_at, o.occurred_at)).subquery("waiting")

    @property
    def _settled_index(self) -> str:
        return self._dialect.identifier_preparer.quote(str(settled_index(self._t.outbox).name))

    def _purging(self) -> dict[str, str]:
        """Those of one look, by their keys: a range of the index would be locked as well."""
        named = self._joined(f"{_SEQ} '$'", "o.seq = given.seq")
        return {
            "purgeable": self._text(self._by(self._purgeable(sa.func.count()), self._settled_index), "ago_us"),
            "oldest_settled": self._text(self._by(self._oldest_settled(), self._settled_index), "ago_us", "most"),
            "purge": f"DELETE o FROM {named} WHERE o.state = {int(State.SETTLED)}",
        }

    def _this_one(self) -> str:
        waits = f" AND o.state <> {int(State.SETTLED)}" if self._marked else ""
        return f"o.seq = ? AND o.id = ?{waits}"

    def _remove(self) -> str:
        return f"DELETE o FROM {self._outbox} AS o {_BY_KEY} WHERE {self._this_one()}"

    def _failed(self) -> str:
        values = "o.attempts = o.attempts + 1, o.last_error = ?"
        return f"UPDATE {self._outbox} AS o {_BY_KEY} SET {values} WHERE {self._this_one()}"  # noqa: S608

    def _looked_up(self, query: Any) -> Any:
        return self._by(query, "PRIMARY")

    def _limited(self, query: Any, limit: Any) -> Any:
        return query.limit(limit)

    def _by(self, query: Any, index: str) -> Any:
        return query.with_hint(self._t.outbox, f"FORCE INDEX ({index.replace('%', '%%')})")

    def _due(self) -> Any:
        o = self._o
        due = sa.select(o.seq).where(o.available_at <= self._now).order_by(o.available_at)
        return self._by(self._limited(due, self._bind("most")), self._due_index)

    def _until_due(self) -> Any:
        o = self._o
        timed = sa.select(self._seconds(o.available_at, self._now).label("seconds")).where(o.available_at.is_not(None))
        return self._by(self._limited(timed.order_by(o.available_at), sa.literal_column("1")), self._due_index)

    @property
    def _due_index(self) -> str:
        return self._dialect.identifier_preparer.quote(f"{self._t.outbox.name}_due")

    def _park(self, names: list[str], rows: Any) -> Any:
        parked = self._t.parked
        insert = mysql.insert(parked).from_select(names, rows, include_defaults=False)
        return insert.on_duplicate_key_update({c.name: insert.inserted[c.name] for c in parked.c if not c.primary_key})
