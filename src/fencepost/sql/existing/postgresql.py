"""The statements for an existing table, as PostgreSQL takes them."""

from __future__ import annotations

from fencepost.sql.existing.texts import ExistingTexts

_LOWEST_TIME = "0" * 16 + "-" + "00000000-0000-0000-0000-000000000000"

_CRC = """(WITH RECURSIVE bits (i, crc, b) AS (
    SELECT 0, 4294967295::bigint, convert_to({text}, 'UTF8')
    UNION ALL
    SELECT i + 1, CASE WHEN x & 1 = 1 THEN (x >> 1) # 3988292384 ELSE x >> 1 END, b
    FROM (SELECT i, b, CASE WHEN i % 8 = 0 THEN crc # get_byte(b, i / 8) ELSE crc END AS x FROM bits
          WHERE i < 8 * length(b)) AS step
) SELECT crc # 4294967295 FROM bits ORDER BY i DESC LIMIT 1)"""


class PostgresqlExisting(ExistingTexts):
    """Where the position is a time, it is written as its microseconds since 1970, 16 digits, then "-" and the id."""

    @property
    def by_time(self) -> bool:
        return self._columns[self._e.position].kind == "time"

    @property
    def lowest(self) -> str:  # type: ignore[override]
        return _LOWEST_TIME if self.by_time else ""

    @property
    def _now(self) -> str:
        return "now()"

    def _mark(self, number: int, kind: str) -> str:
        return f"${number}::{kind}"

    def _text(self, column: str) -> str:
        return f"({column})::text"

    def _joined(self, texts: list[str]) -> str:
        return f"({' || '.join(texts)})::text"

    def _bytes(self, column: str) -> str:
        quoted = self._quoted(column)
        return quoted if self._columns[column].kind == "binary" else f"convert_to(({quoted})::text, 'UTF8')"

    def _header_map(self, column: str) -> str:
        return f"({self._quoted(column)})::json"

    def _moment(self, column: str | None) -> str:
        return self._stored_moment(column)

    def _stored_moment(self, column: str | None) -> str:
        return "now()" if column is None else f"coalesce(({self._quoted(column)})::timestamptz, now())"

    def _seconds_since(self, column: str) -> str:
        return f"extract(epoch FROM now() - ({column})::timestamptz)::double precision"

    def _crc(self, text: str) -> str:
        return _CRC.format(text=text)

    def _replacing(self) -> str:
        return f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in self._replaced())}"

    # -- positions -----------------------------------------------------------------------------------------------------

    @property
    def _time(self) -> str:
        return self._quoted(self._e.position)

    @property
    def _microseconds(self) -> str:
        return f"(extract(epoch FROM {self._time}) * 1000000)::bigint"

    def _position(self) -> str:
        if not self.by_time:
            return super()._position()
        return f"(lpad({self._microseconds}::text, 16, '0') || '-' || {self._id()})"

    def _whole_position(self) -> str:
        return self._microseconds if self.by_time else super()._whole_position()

    def _order(self) -> str:
        return f"{self._time}, {self._quoted(self._e.id)}" if self.by_time else super()._order()

    def _given_time(self, position: str) -> str:
        moment = f"timestamptz 'epoch' + substr({position}, 1, 16)::bigint * interval '1 microsecond'"
        return f"({moment})::{self._columns[self._e.position].declared}"

    def _given_id(self, position: str) -> str:
        return self._typed(f"substr({position}, 18)")

    def _typed(self, text: str) -> str:
        """A text as an id, so that an index of the ids can be used."""
        return f"({text})::{self._columns[self._e.id].declared}"

    def _compared(self, sign: str) -> str:
        mark = self._mark(1, "text")
        row = f"({self._time}, {self._quoted(self._e.id)})"
        return f"{row} {sign} ({self._given_time(mark)}, {self._given_id(mark)})"

    def _after(self) -> str:
        return self._compared(">") if self.by_time else super()._after()

    def _up_to(self) -> str:
        return self._compared("<=") if self.by_time else super()._up_to()

    def _one(self, first: int) -> str:
        position, message_id = self._mark(first, "text" if self.by_time else "bigint"), self._mark(first + 1, "text")
        same_id = f"{self._quoted(self._e.id)} = {self._typed(message_id)}"
        return f"{self._position()} = {position} AND {same_id} AND {self._waits()}"

    def _parked_id(self) -> str:
        return f"{self._id()}::uuid"

    # -- many rows -----------------------------------------------------------------------------------------------------

    def _these(self, first: int) -> str:
        """Rows that are given as two arrays, as the FROM and the WHERE of a change."""
        kind = "text" if self.by_time else "bigint"
        arrays = f"unnest(${first}::text::{kind}[], ${first + 1}::text::text[]) AS given (position, id)"
        same = f"{self._position()} = given.position AND {self._quoted(self._e.id)} = {self._typed('given.id')}"
        return f"{arrays} WHERE {same} AND {self._waits()}"

    def _settle(self) -> str:
        if self._marked:
            return f"UPDATE {self._table} AS o SET {self._settled_values()} FROM {self._these(1)}"  # noqa: S608
        return f"DELETE FROM {self._table} AS o USING {self._these(1)}"  # noqa: S608

    def _in_doubt(self) -> str:
        e = self._e
        value = f"{self._set(str(e.state))} = {self._value(str(e.state), str(e.in_doubt))}"
        return f"UPDATE {self._table} AS o SET {value} FROM {self._these(2)} AND $1::bigint IS NOT NULL"  # noqa: S608

    def _held(self) -> str:
        kind = "text" if self.by_time else "bigint"
        arrays = f"unnest($1::text::{kind}[], $2::text::{kind}[]) AS given (first, last)"
        here = f"{self._position()} BETWEEN given.first AND given.last"
        if self.by_time:
            same_id = f"{self._quoted(self._e.id)} = {self._given_id('given.first')}"
            here = f"{same_id} AND {self._position()} = given.first AND given.last IS NOT NULL"
        rows = f"FROM {arrays} JOIN {self._table} AS o ON {here} WHERE {self._waits()} ORDER BY {self._order()}"
        return f"SELECT {self._position()}, {self._id()} {rows}"

    def _purging(self) -> dict[str, str]:
        e = self._e
        settled_at = self._quoted(str(e.settled_at))
        old = f"{self._quoted(str(e.state))} = {self._value(str(e.state), str(e.settled))} AND {settled_at} < "
        old += "now() - $1::bigint * interval '1 microsecond'"
        chosen = f"SELECT o.ctid FROM {self._table} AS o WHERE {old} ORDER BY {settled_at} LIMIT $2::bigint"  # noqa: S608
        return {
            "purgeable": f"SELECT count(*) FROM {self._table} AS o WHERE {old}",  # noqa: S608
            "purge": f"DELETE FROM {self._table} WHERE ctid = ANY (ARRAY({chosen} FOR UPDATE SKIP LOCKED))",  # noqa: S608
        }

    def _own(self) -> dict[str, str]:
        return {}
