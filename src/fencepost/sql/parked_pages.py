"""Which messages are parked: read in their order, counted, each payload by itself. Flows, for any driver.

What a database compares as Python does is asked of it; the rest of a filter is applied to what it answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from fencepost.message import Stored, microseconds
from fencepost.ports import ParkedFilter, ParkedMessage
from fencepost.ports.parking import gone
from fencepost.sql.statements import Prepared, prepare
from fencepost.sql.tables import MARIADB, Tables, tables
from fencepost.sql.transaction import Call, Work

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_PATTERN = re.compile(r"[*?\[]")
_LENGTH = {"mssql": "datalength", "oracle": "dbms_lob.getlength", "sqlite": "length"}

_compiled: dict[tuple[object, ...], Prepared] = {}


@dataclass(frozen=True, slots=True)
class ParkedPages:
    """The parked messages of one outbox, in the order of where they stood."""

    dialect: Dialect
    schema: str | None
    prefix: str

    def read(self, which: ParkedFilter, most: int, after: ParkedMessage | None) -> Work[list[ParkedMessage]]:
        """Up to ``most`` behind ``after``, of which the database was asked for a part of the filter; fewer mean that
        there are no more.
        """
        if which.ids is not None:
            return (yield from self._with_ids(which, which.ids, most, after))
        values = _asked(which)
        if after is not None:
            values |= {"after_seq": after.place, "after_id": after.message.id}
        rows = yield Call(self.statement("page", *values), {**values, "most": most})
        return [_parked(row) for row in rows]

    def count(self, which: ParkedFilter) -> Work[int]:
        """How many they are, of a filter that is ``exact``."""
        values = _asked(which)
        return int((yield Call(self.statement("count", *values), values))[0][0])

    def payload(self, parked: ParkedMessage) -> Work[bytes | None]:
        """See ParkedStore."""
        values = {"id": parked.message.id, "seq": parked.place}
        rows = yield Call(self.statement("payload", *values), values)
        if not rows:
            raise gone(f"the table {self.prefix}parked", parked)
        return None if rows[0][0] is None else bytes(rows[0][0])

    def _with_ids(
        self, which: ParkedFilter, ids: Sequence[str], most: int, after: ParkedMessage | None
    ) -> Work[list[ParkedMessage]]:
        found: list[ParkedMessage] = []
        for message_id in dict.fromkeys(ids):
            if _UUID.match(message_id):  # nothing else can be there, and some databases would refuse to look
                values = {"id": message_id}
                rows = yield Call(self.statement("page", *values), {**values, "most": 1})
                found += [one for one in map(_parked, rows) if which.matches(one)]
        rest = [one for one in found if after is None or _order(one) > _order(after)]
        return sorted(rest, key=_order)[:most]

    def statement(self, kind: str, *names: str) -> Prepared:
        """The statement of a kind in which these values are given."""
        dialect = self.dialect
        known = (type(dialect), dialect.paramstyle, self.schema, self.prefix, kind, names)
        if known not in _compiled:
            made = _Forms(tables(schema=self.schema, prefix=self.prefix), dialect).made(kind, names)
            _compiled[known] = prepare(made, dialect)
        return _compiled[known]


def exact(which: ParkedFilter) -> bool:
    """Whether the database is asked for all of a filter."""
    return which.ids is None and which.reason is None and not _PATTERN.search(which.topic or "")


def _asked(which: ParkedFilter) -> dict[str, Any]:
    """What of a filter the database is asked for, by the names of parameters."""
    topic = None if which.topic is None or _PATTERN.search(which.topic) else which.topic
    given = {"topic": topic, "key": which.key, "since": which.since, "before": which.before}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class _Forms:
    t: Tables
    dialect: Dialect

    def made(self, kind: str, names: Sequence[str]) -> Any:
        p = self.t.parked.c
        where = [self._condition(name) for name in names if name != "after_id"]
        if kind == "count":
            return sa.select(sa.func.count()).select_from(self.t.parked).where(*where)
        if kind == "payload":
            return sa.select(p.payload).where(*where)
        described = (p.id, p.topic, p.key, p.version, p.type, p.content_type, p.headers, p.occurred_at, p.attempts)
        query = sa.select(*described, p.seq, p.parked_at, p.reason, self._length()).where(*where)
        some = query.order_by(p.seq, p.id).limit(sa.bindparam("most", type_=sa.Integer))
        return some.offset(sa.literal_column("0")) if self.dialect.name == "sqlite" else some  # or it is a parameter

    def _length(self) -> Any:
        name = _LENGTH.get(self.dialect.name, "length" if self.dialect.name in MARIADB else "octet_length")
        function = sa.func
        for part in name.split("."):
            function = getattr(function, part)
        return function(self.t.parked.c.payload)

    def _condition(self, name: str) -> Any:
        p = self.t.parked.c
        if name == "after_seq":
            seq, message_id = (self._bind("after_seq", p.seq), self._bind("after_id", p.id))
            return sa.or_(p.seq > seq, sa.and_(p.seq == seq, p.id > message_id))
        if name == "since":
            return p.parked_at >= self._bind("since", p.parked_at)
        if name == "before":
            return p.parked_at < self._bind("before", p.parked_at)
        return p[name] == self._bind(name, p[name])

    @staticmethod
    def _bind(name: str, column: Any) -> Any:
        return sa.bindparam(name, type_=column.type)


def _order(parked: ParkedMessage) -> tuple[Any, str]:
    return parked.place, parked.message.id


def _parked(row: Sequence[Any]) -> ParkedMessage:
    id_, topic, key, version, kind, content_type, headers, occurred_at, attempts, seq, parked_at, reason, size = row
    drawn = None if key is None else int(seq if version is None else version)
    given = None if headers is None else json.loads(headers)
    described = (int(seq), str(id_), topic, key, drawn, kind, None, content_type, given)
    return ParkedMessage(
        message=Stored(*described, microseconds(_moment(occurred_at)), int(attempts)),
        payload_bytes=None if size is None else int(size),
        reason=reason or "",
        parked_at=_moment(parked_at),
        place=int(seq),
    )


def _moment(value: datetime | str) -> datetime:
    """A time as a driver gives it: where it has no zone it is UTC."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
