"""The statements that read and settle an existing table, written by hand: what is shared by all dialects.

Whoever waits is called ``o``. Positions are whole numbers, or texts: see ``by_time``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any

from sqlalchemy.engine import Dialect

from fencepost.existing import ExistingTable, parts
from fencepost.sql import schema as ddl
from fencepost.sql.existing.columns import Described
from fencepost.sql.tables import Tables


class ExistingTexts(ABC):
    """Writes the statements of one dialect, by their names in ``SourceStatements``."""

    lowest = ""

    def __init__(self, t: Tables, table: ExistingTable, found: Described, dialect: Dialect, *, marked: bool) -> None:
        self._e, self._found, self._dialect, self._marked = table, found, dialect, marked
        self._columns = found.columns
        quote = dialect.identifier_preparer.quote
        self._table = f"{quote(t.outbox.schema)}.{quote(table.table)}" if t.outbox.schema else quote(table.table)
        self._parked_table = ddl.quoted(t.parked, dialect)
        self._states = table.waiting

    def all(self) -> dict[str, Any]:
        return {
            "lowest": self.lowest,
            "pending": self._read(self._fields(), self._after(), slots=False),
            "pending_in_slots": self._read(self._fields(), self._after(), slots=True),
            "below": self._read(self._position(), self._up_to(), slots=False),
            "below_in_slots": self._read(self._position(), self._up_to(), slots=True),
            "settle": self._settle(),
            "held": self._held(),
            "in_doubt": self._in_doubt() if self._e.in_doubt is not None else "",
            "failed": self._counted_failure(),
            "copy_to_parked": self._copy_to_parked() if self._e.parked is None else self._counted_failure(),
            "remove": self._delete_one() if self._e.parked is None else self._set_aside(),
            "release_due": "",
            "next_due": "",
            "backlog": self._backlog(),
            **(self._aside() if self._e.parked is not None else {}),
            **self._own(),
            **(self._purging() if self._marked and self._e.settled_at is not None else {}),
        }

    # -- what each dialect does in its own way ------------------------------------------------------------------------

    @property
    @abstractmethod
    def _now(self) -> str:
        """The database's clock."""

    def _clock(self, column: str) -> str:
        """The database's clock, as this column keeps times."""
        return self._now

    @abstractmethod
    def _mark(self, number: int, kind: str) -> str:
        """An argument: its place, counted from 1, and its type ("bigint", "smallint" or "text")."""

    @abstractmethod
    def _text(self, column: str) -> str:
        """A column of any type as text."""

    @abstractmethod
    def _joined(self, texts: list[str]) -> str:
        """Texts, one after the other."""

    @abstractmethod
    def _bytes(self, column: str) -> str:
        """A payload as bytes."""

    @abstractmethod
    def _header_map(self, column: str) -> str:
        """Headers, as the session decodes them."""

    @abstractmethod
    def _moment(self, column: str | None) -> str:
        """When a row was added, as the session decodes it. None: now."""

    @abstractmethod
    def _seconds_since(self, column: str) -> str:
        """How long ago that was."""

    @abstractmethod
    def _crc(self, text: str) -> str:
        """The same as zlib.crc32 of a text in UTF-8."""

    @abstractmethod
    def _stored_moment(self, column: str | None) -> str:
        """When a row was added, as the table of parked messages keeps it."""

    @abstractmethod
    def _replacing(self) -> str:
        """What an INSERT of a parked message does to one with the same id."""

    @abstractmethod
    def _settle(self) -> str: ...

    @abstractmethod
    def _held(self) -> str: ...

    @abstractmethod
    def _in_doubt(self) -> str: ...

    def _own(self) -> dict[str, str]:
        return {}

    @abstractmethod
    def _purging(self) -> dict[str, str]: ...

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _quoted(self, column: str) -> str:
        return f"o.{self._dialect.identifier_preparer.quote(column)}"

    # Locked, so that a row which somebody settles at this moment is not set aside as well.
    _locked = " FOR UPDATE"

    @property
    def _looked_up(self) -> str:
        """The table, where one row is looked up by position."""
        return f"{self._table} AS o"

    def _name(self, column: str) -> str:
        return self._dialect.identifier_preparer.quote(column)

    def _set(self, column: str) -> str:
        """A column on the left side of an assignment."""
        return self._name(column)

    def _literal(self, text: str) -> str:
        escaped = text.replace("'", "''")
        return f"'{escaped}'"

    def _value(self, column: str, value: str) -> str:
        return str(int(value)) if self._columns[column].kind == "integer" else self._literal(value)

    def _template(self, template: str) -> str:
        pieces = [
            self._text(self._quoted(name)) if kind == "column" else self._literal(name)
            for kind, name in parts(template)
        ]
        return self._joined(pieces)

    def _position(self) -> str:
        return self._quoted(self._e.position)

    def _order(self) -> str:
        return self._position()

    def _id(self) -> str:
        return self._text(self._quoted(self._e.id))

    def _key(self) -> str:
        return "NULL" if self._e.key is None else f"nullif({self._text(self._quoted(self._e.key))}, '')"

    def _optional(self, column: str | None, missing: str) -> str:
        return missing if column is None else f"coalesce({self._quoted(column)}, {missing})"

    def _waits(self) -> str:
        """What a row must be to be read, settled or set aside: rows in other states are none of ours."""
        e = self._e
        if e.state is None:
            return "1 = 1"
        return f"{self._quoted(e.state)} IN ({', '.join(self._value(e.state, value) for value in self._states)})"

    def _is_in_doubt(self) -> str:
        e = self._e
        if e.state is None or e.in_doubt is None:
            return "1 = 0"
        return f"{self._quoted(e.state)} = {self._value(e.state, e.in_doubt)}"

    def _fields(self) -> str:
        """In the order of Stored's."""
        e = self._e
        version = "NULL" if e.version is None else self._quoted(e.version)
        described = [self._position(), self._id(), self._template(e.topic), self._key(), version]
        described += [self._template(e.type), self._bytes(e.payload), self._literal(e.content_type)]
        described += ["NULL" if e.headers is None else self._header_map(e.headers), self._moment(e.occurred_at)]
        return ", ".join([*described, self._optional(e.attempts, "0"), self._is_in_doubt()])

    # -- statements ----------------------------------------------------------------------------------------------------

    def _after(self) -> str:
        return f"{self._position()} > {self._mark(1, 'bigint')}"

    def _up_to(self) -> str:
        return f"{self._position()} <= {self._mark(1, 'bigint')}"

    def _slot(self) -> str:
        return f"({self._crc(f'coalesce({self._key()}, {self._id()})')}) % 256"

    def _read(self, fields: str, where: str, *, slots: bool) -> str:
        conditions, last = f"{where} AND {self._waits()}", 2
        if slots:
            conditions += f" AND {self._slot()} BETWEEN {self._mark(2, 'smallint')} AND {self._mark(3, 'smallint')}"
            last = 4
        ordered = f"ORDER BY {self._order()} LIMIT {self._mark(last, 'bigint')}"
        return f"SELECT {fields} FROM {self._table} AS o WHERE {conditions} {ordered}"  # noqa: S608 - names are quoted

    def _settled_values(self) -> str:
        e = self._e
        assert e.state is not None  # noqa: S101 - checked with the configuration
        assert e.settled is not None  # noqa: S101
        values = f"{self._set(e.state)} = {self._value(e.state, e.settled)}"
        return values if e.settled_at is None else f"{values}, {self._set(e.settled_at)} = {self._clock(e.settled_at)}"

    def _one(self, first: int) -> str:
        position = f"{self._position()} = {self._mark(first, 'bigint')}"
        return f"{position} AND {self._id()} = {self._mark(first + 1, 'text')} AND {self._waits()}"

    def _counted_failure(self) -> str:
        """(error, position, id)"""
        e = self._e
        values = [] if e.attempts is None else [f"{self._set(e.attempts)} = {self._optional(e.attempts, '0')} + 1"]
        error = self._mark(1, "text")
        kept = e.state or e.id  # some column, where nothing else is to be written
        values += [f"{self._set(e.last_error or kept)} = {error if e.last_error else self._quoted(kept)}"]
        given = "" if e.last_error else f"{error} IS NOT NULL AND "
        return f"UPDATE {self._looked_up} SET {', '.join(values)} WHERE {given}{self._one(2)}"  # noqa: S608

    def _delete_one(self) -> str:
        return f"DELETE FROM {self._table} AS o WHERE {self._one(1)}"  # noqa: S608

    def _set_aside(self) -> str:
        e = self._e
        assert e.state is not None  # noqa: S101 - checked with the configuration
        assert e.parked is not None  # noqa: S101
        value = f"{self._set(e.state)} = {self._value(e.state, e.parked)}"
        return f"UPDATE {self._looked_up} SET {value} WHERE {self._one(1)}"  # noqa: S608

    def _aside(self) -> dict[str, str]:
        """What is said of rows in the state of parked ones: the same as of those that wait, in another state."""
        e, parked = self._e, copy(self)
        assert e.state is not None  # noqa: S101 - checked with the configuration
        parked._states = (str(e.parked),)
        reason = "''" if e.last_error is None else self._quoted(e.last_error)
        waits = [f"{self._set(e.state)} = {self._value(e.state, str(e.pending))}"]
        waits += [] if e.attempts is None else [f"{self._set(e.attempts)} = 0"]
        one = f"FROM {self._looked_up} WHERE {parked._one(1)}"
        return {
            "parked_page": parked._read(f"{self._fields()}, {reason}", self._after(), slots=False),
            "parked_count": f"SELECT count(*) FROM {self._table} AS o WHERE {parked._waits()}",  # noqa: S608
            "parked_find": f"SELECT {self._id()} {one}{self._locked}",
            "parked_payload": f"SELECT {self._bytes(e.payload)} {one}",
            "parked_retry": f"UPDATE {self._looked_up} SET {', '.join(waits)} WHERE {parked._one(1)}",  # noqa: S608
            "parked_discard": parked._delete_one(),
        }

    def _copy_to_parked(self) -> str:
        """(reason, position, id)"""
        e = self._e
        values = {
            "reason": self._mark(1, "text"),
            "parked_at": self._now,
            "id": self._parked_id(),
            "topic": self._template(e.topic),
            "key": self._key(),
            "version": "NULL" if e.version is None else self._quoted(e.version),
            "type": self._template(e.type),
            "slot": self._slot(),
            "payload": self._bytes(e.payload),
            "content_type": self._literal(e.content_type),
            "headers": "NULL" if e.headers is None else self._text(self._quoted(e.headers)),
            "occurred_at": self._stored_moment(e.occurred_at),
            "attempts": f"{self._optional(e.attempts, '0')} + 1",
            "seq": self._whole_position(),
        }
        names = ", ".join(self._name(name) for name in values)
        rows = f"SELECT {', '.join(values.values())} FROM {self._looked_up} WHERE {self._one(2)}{self._locked}"  # noqa: S608
        return f"INSERT INTO {self._parked_table} ({names}) {rows} {self._replacing()}"

    def _parked_id(self) -> str:
        return self._id()

    def _whole_position(self) -> str:
        return self._position()

    def _backlog(self) -> str:
        e = self._e
        if e.state is not None and e.parked is not None:
            parked = f"{self._table} AS o WHERE {self._quoted(e.state)} = {self._value(e.state, e.parked)}"
        else:
            parked = self._parked_table
        oldest = "NULL" if e.occurred_at is None else self._seconds_since(f"min({self._quoted(e.occurred_at)})")
        counts = f"count(*), 0, (SELECT count(*) FROM {parked}), {oldest}"  # noqa: S608
        return f"SELECT {counts} FROM {self._table} AS o WHERE {self._waits()}"  # noqa: S608

    def _replaced(self) -> list[str]:
        """The columns of a parked message that a later one with its id replaces."""
        names = ["reason", "parked_at", "topic", "key", "version", "type", "slot", "payload", "content_type", "headers"]
        return [self._name(name) for name in (*names, "occurred_at", "attempts", "seq")]
