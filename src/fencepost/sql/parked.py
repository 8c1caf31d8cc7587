"""What a person does with parked messages: have them tried again, or give them up. Flows, for any driver.

A message that is tried again goes to the end of its key, because its key has gone on without it, and is marked: its
header ``fencepost-retried`` counts how often this was done. It keeps its id and its time. Its version is the next one
of its key, so that a reader takes it for news; an application that gives versions of its own has it keep the old one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from fencepost.errors import SchemaMissing
from fencepost.ports.parking import marked
from fencepost.sql.faults import fault_of
from fencepost.sql.outbox import COLUMNS, channel, lock_number, position_lock, waking
from fencepost.sql.outbox_other import Counting, counting, locking
from fencepost.sql.statements import Prepared, prepare
from fencepost.sql.tables import MARIADB, State, Tables, tables
from fencepost.sql.transaction import Call, Work

_RETURNING = {"postgresql", "sqlite"}  # the drivers that are used there fetch rows of every statement

_compiled: dict[tuple[object, ...], ParkedStatements] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedStatements:
    """The compiled statements of one dialect and one outbox. ``id`` is the message's; ``seq``, where it stood, counts
    too where only the message that was parked from there is meant.
    """

    claim: Prepared
    """(id, seq): locks it; returns (topic, key, version, seq, headers), or no row where it is not parked (any more)."""
    draw: Prepared | Counting
    """(topic, key): draws the next version of an entity that has been counted; returns (version), or no row."""
    lock: Prepared | None
    """(lock): locks an entity whose versions are positions."""
    copy_back: Prepared
    """(id, seq, version, headers): the message waits again."""
    find: Prepared | None
    """(id, seq): returns (id), or no row, and locks it. None where ``remove`` tells as much."""
    remove: Prepared
    """(id, seq): returns (id), or no row."""


class _Claimed(NamedTuple):
    """A parked message that nobody else can take now."""

    topic: str
    key: str | None
    version: int | None
    seq: int
    headers: str | None


Place = tuple[str, int | None]
"""A message's id and where it stood; None: wherever that was."""


@dataclass(frozen=True, slots=True)
class ParkedMessages:
    """The parked messages of one outbox. Every flow runs inside one transaction of the caller's."""

    schema: str | None = None
    prefix: str = "fencepost_"

    def retry(self, dialect: Dialect, ids: Iterable[str], *, keep_versions: bool = False) -> Work[list[str]]:
        """Put messages to the end of their keys, in the order given. Returns the ids of those that were parked.

        Two that do this at once for one message: one of them does it. Each gets the next version of its key, or keeps
        its own. Raises SchemaMissing and what the driver raises.
        """
        return (yield from self.retry_at(dialect, [(each, None) for each in ids], keep_versions=keep_versions))

    def discard(self, dialect: Dialect, ids: Iterable[str]) -> Work[list[str]]:
        """Remove messages for good. Returns the ids of those that were parked. Raises what ``retry`` raises."""
        return (yield from self.discard_at(dialect, [(each, None) for each in ids]))

    def retry_at(self, dialect: Dialect, places: Iterable[Place], *, keep_versions: bool) -> Work[list[str]]:
        """The same for messages that were parked from these positions."""
        wanted = dict(places)
        with_seq = any(seq is not None for seq in wanted.values())
        return (yield from self._told(_retry(self._statements(dialect, with_seq), wanted, keep=keep_versions)))

    def discard_at(self, dialect: Dialect, places: Iterable[Place]) -> Work[list[str]]:
        """The same for messages that were parked from these positions."""
        wanted = dict(places)
        with_seq = any(seq is not None for seq in wanted.values())
        return (yield from self._told(_discard(self._statements(dialect, with_seq), wanted)))

    def _told(self, work: Work[list[str]]) -> Work[list[str]]:
        """A missing table is told as such; what else the driver says is the caller's."""
        try:
            return (yield from work)
        except Exception as error:
            fault = fault_of(error, f"the tables {self.prefix}outbox, {self.prefix}entity, {self.prefix}parked")
            if isinstance(fault, SchemaMissing):
                raise fault from error
            raise

    def _statements(self, dialect: Dialect, with_seq: bool) -> ParkedStatements:
        name = (type(dialect), dialect.paramstyle, getattr(dialect, "is_mariadb", False), self, with_seq)
        if name not in _compiled:
            _compiled[name] = parked_statements(dialect, schema=self.schema, prefix=self.prefix, with_seq=with_seq)
        return _compiled[name]


# ----------------------------------------------------------------------------------------------------------- statements


def parked_statements(dialect: Dialect, *, schema: str | None, prefix: str, with_seq: bool = False) -> ParkedStatements:
    """Compile the statements. ``with_seq``: they name a message by id and by where it stood."""
    t = tables(schema=schema, prefix=prefix)
    this, returning = _this(t, with_seq=with_seq), dialect.name in _RETURNING
    remove = sa.delete(t.parked).where(this)
    return ParkedStatements(
        claim=prepare(_claim(t, this, dialect), dialect),
        draw=counting(t.entity, dialect) or prepare(_draw(t.entity, dialect), dialect),
        lock=position_lock(t, dialect),
        copy_back=prepare(_copy_back(t, this, dialect, channel(schema, prefix)), dialect),
        find=None if returning else prepare(locking(sa.select(t.parked.c.id).where(this), t.parked), dialect),
        remove=prepare(remove.returning(t.parked.c.id) if returning else remove, dialect),
    )


def _this(t: Tables, *, with_seq: bool) -> Any:
    parked = t.parked.c
    this = parked.id == sa.bindparam("id", type_=parked.id.type)
    return sa.and_(this, parked.seq == sa.bindparam("seq", type_=sa.BigInteger)) if with_seq else this


def _claim(t: Tables, this: Any, dialect: Dialect) -> Any:
    """SQLite locks only whom it lets write; and it must do so before anything is read."""
    parked = t.parked.c
    columns = (parked.topic, parked.key, parked.version, parked.seq, parked.headers)
    if dialect.name == "sqlite":
        return sa.update(t.parked).values(attempts=parked.attempts).where(this).returning(*columns)
    return locking(sa.select(*columns).where(this), t.parked)


def _draw(entity: sa.Table, dialect: Dialect) -> Any:
    c = entity.c
    this = [column == sa.bindparam(column.name, type_=column.type) for column in (c.topic, c.key)]
    following = c.version + sa.literal_column("1")
    if dialect.name in MARIADB:
        return sa.update(entity).values(version=sa.func.last_insert_id(following)).where(*this)
    return sa.update(entity).values(version=following).where(*this).returning(c.version)


def _copy_back(t: Tables, this: Any, dialect: Dialect, name: str) -> Any:
    parked, outbox = t.parked.c, t.outbox.c
    instead = {
        "version": _bound("version", outbox.version.type, dialect),
        "headers": _bound("headers", outbox.headers.type, dialect),
        "state": sa.literal_column(str(int(State.PENDING))),
    }
    columns = [instead[name] if name in instead else parked[name] for name in COLUMNS]
    rows = sa.select(*columns).where(this)
    insert = sa.insert(t.outbox).from_select(list(COLUMNS), rows, include_defaults=False)
    if dialect.name == "postgresql":
        return waking(insert, t, name, outbox.seq)
    return insert.returning(outbox.seq) if dialect.name == "sqlite" else insert


def _bound(name: str, kind: Any, dialect: Dialect) -> Any:
    """A value in the place of a column: most databases must be told what it is."""
    value = sa.bindparam(name, type_=kind)
    return value if dialect.name in {"sqlite", *MARIADB} else sa.cast(value, kind)


# ---------------------------------------------------------------------------------------------------------------- flows


def _retry(say: ParkedStatements, wanted: Mapping[str, int | None], *, keep: bool) -> Work[list[str]]:
    """Rows are locked in the order of their ids, then entities in theirs: two that do it never wait in a circle."""
    claimed: dict[str, _Claimed] = {}
    for message_id in sorted(wanted):
        rows = yield Call(say.claim, {"id": message_id, "seq": wanted[message_id]})
        if rows:
            claimed[message_id] = _Claimed(*rows[0])
    done = [message_id for message_id in wanted if message_id in claimed]
    versions: dict[str, int | None] = {}
    for message_id in sorted(done, key=lambda each: (claimed[each].topic, claimed[each].key or "")):
        versions[message_id] = yield from _version(say, claimed[message_id], keep=keep)
    for message_id in done:
        this = {"id": message_id, "seq": wanted[message_id]}
        headers = _marked(claimed[message_id].headers)
        yield Call(say.copy_back, {**this, "version": versions[message_id], "headers": headers})
        yield Call(say.remove, this)
    return done


def _version(say: ParkedStatements, row: _Claimed, *, keep: bool) -> Work[int | None]:
    """The version of its next try. Where no number is stored the position is the version: a new one, unless kept."""
    if row.key is None:
        return None
    if keep:
        return int(row.seq if row.version is None else row.version)
    drawn = None if row.version is None else (yield from _drawn(say.draw, {"topic": row.topic, "key": row.key}))
    if drawn is None and say.lock is not None:
        yield Call(say.lock, {"lock": lock_number(row.topic, row.key)})
    return row.version if drawn is None else drawn


def _drawn(draw: Prepared | Counting, values: Mapping[str, Any]) -> Work[int | None]:
    """The next version of an entity; None where nobody counts."""
    if not isinstance(draw, Counting):
        rows = yield Call(draw, values)
        return int(rows[0][0]) if rows else None
    rows = yield Call(draw.lock, values)
    if not rows:
        return None
    version = int(rows[0][0]) + 1
    yield Call(draw.put, {**values, "version": version})
    return version


def _discard(say: ParkedStatements, wanted: Mapping[str, int | None]) -> Work[list[str]]:
    gone = set()
    for message_id in sorted(wanted):
        this = {"id": message_id, "seq": wanted[message_id]}
        if say.find is None:
            there = yield Call(say.remove, this)
        else:
            there = yield Call(say.find, this)
            if there:
                yield Call(say.remove, this)
        if there:
            gone.add(message_id)
    return [message_id for message_id in wanted if message_id in gone]


def _marked(headers: str | None) -> str:
    """Headers as they are stored, with the mark."""
    return json.dumps(marked(json.loads(headers) if headers else None), ensure_ascii=False, separators=(",", ":"))
