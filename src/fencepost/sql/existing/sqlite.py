"""The statements for an existing table, as SQLite takes them."""

from __future__ import annotations

from fencepost.sql.existing.texts import ExistingTexts

CRC = "fencepost_crc32"
"""A function that the connections of a relay have: zlib.crc32 of a text."""

ROWID = "rowid"
"""A position that every table has here."""

_FORM = "'%Y-%m-%d %H:%M:%f000'"


class SqliteExisting(ExistingTexts):
    """Rows are given one at a time. Times may be text, or seconds since 1970 as a number."""

    _locked = ""

    def _quoted(self, column: str) -> str:
        return f"o.{ROWID}" if column.lower() == ROWID else super()._quoted(column)

    def _set(self, column: str) -> str:
        return ROWID if column.lower() == ROWID else super()._set(column)

    @property
    def _now(self) -> str:
        return f"strftime({_FORM}, 'now')"

    def _mark(self, number: int, kind: str) -> str:
        return "?"

    def _text(self, column: str) -> str:
        return f"CAST({column} AS TEXT)"

    def _joined(self, texts: list[str]) -> str:
        return f"({' || '.join(texts)})"

    def _bytes(self, column: str) -> str:
        return f"CAST({self._quoted(column)} AS BLOB)"

    def _header_map(self, column: str) -> str:
        return self._text(self._quoted(column))

    def _parsed(self, moment: str) -> str:
        """A number counts seconds since 1970, as ``unixepoch()`` does; a text may have a zone."""
        number = f"typeof({moment}) IN ('integer', 'real')"
        return f"CASE WHEN {number} THEN strftime({_FORM}, {moment}, 'unixepoch') ELSE strftime({_FORM}, {moment}) END"

    def _moment(self, column: str | None) -> str:
        return f"{self._stored_moment(column)} || '+00:00'"

    def _stored_moment(self, column: str | None) -> str:
        return self._now if column is None else f"coalesce({self._parsed(self._quoted(column))}, {self._now})"

    def _seconds_since(self, column: str) -> str:
        return f"(julianday('now') - julianday({self._parsed(column)})) * 86400.0"

    def _crc(self, text: str) -> str:
        return f"{CRC}({text})"

    def _replacing(self) -> str:
        return f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in self._replaced())}"

    def _settle(self) -> str:
        if self._marked:
            return f"UPDATE {self._table} AS o SET {self._settled_values()} WHERE {self._one(1)}"  # noqa: S608
        return self._delete_one()

    def _in_doubt(self) -> str:
        e = self._e
        value = f"{self._set(str(e.state))} = {self._value(str(e.state), str(e.in_doubt))}"
        return f"UPDATE {self._table} AS o SET {value} WHERE ? IS NOT NULL AND {self._one(1)}"  # noqa: S608

    def _held(self) -> str:
        first, last = (f"json_extract(given.value, '$[{i}]')" for i in (0, 1))
        rows = f"json_each(?) AS given JOIN {self._table} AS o ON {self._position()} BETWEEN {first} AND {last}"
        selected = f"SELECT {self._position()}, {self._id()} FROM {rows}"  # noqa: S608
        return f"{selected} WHERE {self._waits()} ORDER BY {self._order()}"

    def _purging(self) -> dict[str, str]:
        e = self._e
        settled_at = self._quoted(str(e.settled_at))
        old = f"{self._quoted(str(e.state))} = {self._value(str(e.state), str(e.settled))} AND {settled_at} < "
        old += f"strftime({_FORM}, 'now', '-' || (? / 1e6) || ' seconds')"
        chosen = f"SELECT o.rowid FROM {self._table} AS o WHERE {old} ORDER BY {settled_at} LIMIT ?"  # noqa: S608
        return {
            "purgeable": f"SELECT count(*) FROM {self._table} AS o WHERE {old}",  # noqa: S608
            "purge": f"DELETE FROM {self._table} WHERE rowid IN ({chosen})",  # noqa: S608
        }
