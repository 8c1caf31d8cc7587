"""The statements for an existing table, as MariaDB and MySQL take them."""

from __future__ import annotations

from fencepost.sql.existing.texts import ExistingTexts

_EXACT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_ROWS = f"position BIGINT PATH '$[0]', id VARCHAR(255) {_EXACT} PATH '$[1]'"
_RANGES = "first BIGINT PATH '$[0]', last BIGINT PATH '$[1]'"


class MariadbExisting(ExistingTexts):
    """Many rows at once, as one JSON that is joined in its order. Texts are compared byte by byte."""

    @property
    def _now(self) -> str:
        return "UTC_TIMESTAMP(6)"

    def _mark(self, number: int, kind: str) -> str:
        return "?"

    def _set(self, column: str) -> str:
        return self._quoted(column)

    def _literal(self, text: str) -> str:
        return super()._literal(text.replace("\\", "\\\\"))

    def _text(self, column: str) -> str:
        return f"CAST({column} AS CHAR CHARACTER SET utf8mb4)"

    def _joined(self, texts: list[str]) -> str:
        return f"CONCAT({', '.join(texts)})"

    def _bytes(self, column: str) -> str:
        quoted = self._quoted(column)
        return quoted if self._columns[column].kind == "binary" else f"CAST({self._text(quoted)} AS BINARY)"

    def _header_map(self, column: str) -> str:
        return self._text(self._quoted(column))

    def _moment(self, column: str | None) -> str:
        return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {self._stored_moment(column)})"

    def _stored_moment(self, column: str | None) -> str:
        if column is None:
            return self._now
        quoted = self._quoted(column)
        if self._is_zoned(column):
            since_us = f"CAST(UNIX_TIMESTAMP({quoted}) * 1000000 AS SIGNED)"
            quoted = f"TIMESTAMPADD(MICROSECOND, {since_us}, '1970-01-01')"
        return f"coalesce({quoted}, {self._now})"

    def _seconds_since(self, column: str) -> str:
        zoned = self._is_zoned(str(self._e.occurred_at))
        return f"TIMESTAMPDIFF(MICROSECOND, {column}, {'NOW(6)' if zoned else self._now}) / 1e6"

    def _is_zoned(self, column: str) -> bool:
        """A TIMESTAMP is shown in the time zone of the session; a DATETIME is taken for UTC."""
        return self._columns[column].declared.lower().startswith("timestamp")

    def _clock(self, column: str) -> str:
        return "NOW(6)" if self._is_zoned(column) else self._now

    def _crc(self, text: str) -> str:
        return f"CRC32({text})"

    def _replacing(self) -> str:
        return f"ON DUPLICATE KEY UPDATE {', '.join(f'{name} = VALUES({name})' for name in self._replaced())}"

    def _one(self, first: int) -> str:
        return f"{self._position()} = ? AND {self._id()} = ? COLLATE utf8mb4_bin AND {self._waits()}"

    def _delete_one(self) -> str:
        return f"DELETE o FROM {self._looked_up} WHERE {self._one(1)}"

    @property
    def _looked_up(self) -> str:
        """By position, whatever the optimizer thinks: a scan would wait for the rows of open transactions."""
        return f"{self._table} AS o {self._forced}"

    @property
    def _forced(self) -> str:
        names = [index.name for index in self._found.indexes if index.columns[:1] == (self._e.position,)]
        return f"FORCE INDEX ({self._name(names[0])})" if names else ""

    def _given(self, columns: str, condition: str) -> str:
        given = f"JSON_TABLE(?, '$[*]' COLUMNS ({columns})) AS given"
        return f"{given} STRAIGHT_JOIN {self._looked_up} ON {condition}"

    def _these(self) -> str:
        return self._given(_ROWS, f"{self._position()} = given.position AND {self._id()} = given.id")

    def _settle(self) -> str:
        if self._marked:
            return f"UPDATE {self._these()} SET {self._settled_values()} WHERE {self._waits()}"  # noqa: S608
        return f"DELETE o FROM {self._these()} WHERE {self._waits()}"

    def _in_doubt(self) -> str:
        e = self._e
        value = f"{self._set(str(e.state))} = {self._value(str(e.state), str(e.in_doubt))}"
        return f"UPDATE {self._these()} SET {value} WHERE ? IS NOT NULL AND {self._waits()}"  # noqa: S608

    def _held(self) -> str:
        return self._held_in(self._given(_RANGES, f"{self._position()} BETWEEN given.first AND given.last"))

    def _held_in(self, rows: str) -> str:
        selected = f"SELECT {self._position()}, {self._id()} FROM {rows}"  # noqa: S608
        return f"{selected} WHERE {self._waits()} ORDER BY {self._order()}"

    def _own(self) -> dict[str, str]:
        rows = self._given("position BIGINT PATH '$'", f"{self._position()} = given.position")
        return {"held_at": self._held_in(rows)}

    def _purging(self) -> dict[str, str]:
        e = self._e
        settled_at, state = self._quoted(str(e.settled_at)), self._quoted(str(e.state))
        settled = f"{state} = {self._value(str(e.state), str(e.settled))}"
        old = f"{settled} AND {settled_at} < TIMESTAMPADD(MICROSECOND, -?, {self._clock(str(e.settled_at))})"
        rows = self._given("position BIGINT PATH '$'", f"{self._position()} = given.position")
        oldest = f"SELECT {self._position()} FROM {self._table} AS o WHERE {old}"  # noqa: S608
        return {
            "purgeable": f"SELECT count(*) FROM {self._table} AS o WHERE {old}",  # noqa: S608
            "oldest_settled": f"{oldest} ORDER BY {settled_at} LIMIT ?",
            "purge": f"DELETE o FROM {rows} WHERE {settled}",
        }
