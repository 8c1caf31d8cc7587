"""The flow that writes messages into an outbox over any driver: which statements, in which order, what comes back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.engine import Dialect
from sqlalchemy.exc import IntegrityError

from fencepost.errors import SchemaMissing, VersionConflict
from fencepost.message import Message, slot_of
from fencepost.sql import outbox_other
from fencepost.sql.faults import fault_of
from fencepost.sql.outbox import COLUMNS, AddStatements, Versions, add_statements, lock_number
from fencepost.sql.outbox_mariadb import Chunks, chunked, numbered
from fencepost.sql.outbox_other import Counting
from fencepost.sql.statements import Prepared
from fencepost.sql.tables import State
from fencepost.sql.transaction import Call, Rows, Work

_compiled: dict[tuple[object, ...], AddStatements] = {}


@dataclass(frozen=True, slots=True)
class OutboxWriter:
    """Writes into one outbox. Messages are checked before they come here."""

    schema: str | None
    prefix: str
    versions: Versions

    @property
    def place(self) -> str:
        return f"{self.schema or ''}.{self.prefix}.{self.versions}"

    def write(self, dialect: Dialect, messages: Sequence[Message]) -> Work[list[Message]]:
        """Write the messages and return them with their versions, in the same order.

        Raises VersionConflict (a single message: nothing was written), SchemaMissing, and what the driver raises;
        MessageRefused before anything was written.
        """
        statements = self.check(dialect, messages)
        try:
            if len(messages) == 1:
                return [(yield from self._one(statements, messages[0]))]
            return (yield from self._many(statements, messages))
        except Exception as error:
            fault = fault_of(error, f"the tables {self.prefix}outbox, {self.prefix}entity, {self.prefix}lane")
            if isinstance(fault, SchemaMissing):
                raise fault from error
            raise  # what else the driver says is for the caller, as from a statement of the caller's own

    def check(self, dialect: Dialect, messages: Sequence[Message]) -> AddStatements:
        """The compiled statements. Raises ConfigurationError for a database that cannot hold an outbox, MessageRefused
        for a message that this one would keep as something else.
        """
        statements = self.statements(dialect)
        outbox_other.check(dialect, messages)
        return statements

    def statements(self, dialect: Dialect) -> AddStatements:
        """The compiled statements. Raises ConfigurationError for a database that cannot hold an outbox."""
        name = (type(dialect), dialect.paramstyle, getattr(dialect, "is_mariadb", False), self)
        found = _compiled.get(name)
        if found is None:
            found = add_statements(dialect, schema=self.schema, prefix=self.prefix, versions=self.versions)
            _compiled[name] = found
        return found

    def _one(self, statements: AddStatements, message: Message) -> Work[Message]:
        values = _values(message)
        if message.key is None:
            yield Call(statements.keyless, values)
            return message
        if self.versions == "position":
            values["lock"] = lock_number(message.topic, message.key)
        if statements.counting is not None:
            return (yield from self._counted(statements.counting, statements.given, message, values))
        drawn = message.version is None
        entity = statements.entity_drawn if drawn else statements.entity_given
        if entity is not None:
            values["version"] = _first((yield Call(entity, values)), message)[0]
        rows = yield Call(statements.drawn if drawn else statements.given, values)
        if entity is not None:
            return replace(message, version=values["version"])
        return _versioned(message, _first(rows, message))

    def _counted(self, say: Counting, insert: Prepared, message: Message, values: dict[str, Any]) -> Work[Message]:
        """The version is counted here, while the entity's row is locked."""
        rows = yield Call(say.lock, values)
        if not rows:
            with suppress(IntegrityError):  # somebody else has made it meanwhile
                yield Call(say.first, values)
            rows = yield Call(say.lock, values)
        last = _first(rows, message)[0]
        version = last + 1 if message.version is None else message.version
        _first(rows if version > last else (), message)
        yield Call(say.put, values | {"version": version})
        yield Call(insert, values | {"version": version})
        return replace(message, version=version)

    def _many(self, statements: AddStatements, messages: Sequence[Message]) -> Work[list[Message]]:
        given = self.versions == "counter" and any(message.version is not None for message in messages)
        if statements.batch is not None and not given:
            rows = (yield Call(statements.batch, self._arrays(messages))) if messages else []
            in_order = sorted(rows, key=lambda row: int(row[0]))
            return [_versioned(message, row) for message, row in zip(messages, in_order, strict=True)]
        if statements.chunks is not None and not given:
            return (yield from self._some_at_a_time(statements.chunks, messages))
        order = list(range(len(messages)))
        if not statements.alone:  # many may write at once: lock in one order
            order.sort(key=lambda index: _entity(messages[index]))
        written: dict[int, Message] = {}
        for index in order:
            written[index] = yield from self._one(statements, messages[index])
        return [written[index] for index in range(len(messages))]

    def _some_at_a_time(self, statements: Chunks, messages: Sequence[Message]) -> Work[list[Message]]:
        """Every entity is locked, and raised by the number of its messages, before a message is written."""
        counts = Counter(_entity(message) for message in messages if message.key is not None)
        last: dict[tuple[str, str], int] = {}
        for entities in chunked(sorted(counts)):
            values = numbered([{"topic": topic, "key": key, "version": counts[topic, key]} for topic, key in entities])
            yield Call(statements.raised(len(entities)), values)
            rows = yield Call(statements.read(len(entities)), values)
            last |= {(topic, key): version for topic, key, version in rows}
        behind = zip(messages, _behind(messages), strict=True)
        written = [m if m.key is None else replace(m, version=last[_entity(m)] - later) for m, later in behind]
        for some in chunked(written, [len(message.payload or b"") for message in written]):
            yield Call(statements.insert(len(some)), numbered([_values(message) for message in some]))
        return written

    def _arrays(self, messages: Sequence[Message]) -> dict[str, list[Any]]:
        """The values of the batch statement: a list for each column, and the entities to lock, sorted."""
        rows = [_values(message) for message in messages]
        arrays = {name: [row[name] for row in rows] for name in COLUMNS}
        counts = Counter((message.topic, message.key) for message in messages if message.key is not None)
        if self.versions == "position":
            return arrays | {"lock": sorted({lock_number(topic, key) for topic, key in counts})}
        entities = sorted(counts)
        return arrays | {
            "behind": _behind(messages),
            "entity_topic": [topic for topic, _ in entities],
            "entity_key": [key for _, key in entities],
            "entity_count": [counts[entity] for entity in entities],
        }


def _values(message: Message) -> dict[str, Any]:
    headers = message.headers
    return {
        "id": message.id,
        "topic": message.topic,
        "key": message.key,
        "version": message.version,
        "type": message.type,
        "slot": slot_of(message.key, message.id),
        "payload": message.payload,
        "content_type": message.content_type,
        "headers": json.dumps(dict(headers), ensure_ascii=False, separators=(",", ":")) if headers else None,
        "occurred_at": message.occurred_at,
        "available_at": message.available_at,
        "state": int(State.PENDING if message.available_at is None else State.DELAYED),
    }


def _first(rows: Rows, message: Message) -> Sequence[Any]:
    if not rows:
        raise VersionConflict(
            f"version {message.version} of {message.key!r} on topic {message.topic!r} is not newer than the last one",
            remedy="somebody else changed the entity: roll back, read it again, repeat; or let versions be drawn",
        )
    return rows[0]


def _versioned(message: Message, row: Sequence[Any]) -> Message:
    """The message with the version that the row (seq, version, ...) has: the position where no number is stored."""
    if message.key is None or message.version is not None:
        return message
    return replace(message, version=row[0] if row[1] is None else row[1])


def _entity(message: Message) -> tuple[str, str]:
    return message.topic, message.key or ""


def _behind(messages: Sequence[Message]) -> list[int]:
    """For each message how many later ones there are of its entity."""
    later: Counter[tuple[str, str]] = Counter()
    behind = []
    for message in reversed(messages):
        behind.append(later[_entity(message)])
        later[_entity(message)] += 1
    return behind[::-1]
