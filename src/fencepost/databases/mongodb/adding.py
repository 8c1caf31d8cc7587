"""Adding messages to an outbox collection, inside the caller's own transaction: one text for both kinds of client.

    outbox = MongoOutbox()
    with client.start_session() as session:
        session.with_transaction(place_order)      # which calls outbox.add(session, "orders", {...}, key="1")

``AsyncMongoOutbox`` is the same for sessions of an AsyncMongoClient. Nothing here begins, commits or aborts anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import ConfigurationError as NoDefaultDatabase
from pymongo.errors import DuplicateKeyError, OperationFailure
from pymongo.synchronous.client_session import ClientSession

from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.databases.mongodb.collection.names import Names, State, entity_id
from fencepost.databases.mongodb.positions import Ticks, position_of
from fencepost.databases.mongodb.records import fields_of
from fencepost.errors import ConfigurationError, NoTransaction, VersionConflict
from fencepost.flows import Flow, run, run_async
from fencepost.message import Message, slot_of
from fencepost.newmessage import JSON, Attributes, Encoder, MessageMaker, NewMessage, name_of_class

Entity = tuple[str, str]
"""Topic and key."""

_WRITE_CONFLICT = 112


@dataclass(frozen=True, slots=True)
class _Advance:
    """Lock an entity and move it on; its document as it was is the answer."""

    entity: str
    pipeline: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Insert:
    """Insert messages; there is no answer."""

    documents: Sequence[dict[str, Any]]


_Call = _Advance | _Insert
_Answer = Mapping[str, Any] | None


class _Adding:
    """What both outboxes share: options, checks, what is written in which order."""

    def __init__(
        self,
        database: str | None = None,
        *,
        prefix: str = "fencepost_",
        max_bytes: int | None = 950_000,
        encoder: Encoder = JSON,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``database`` is where the collections are, whose names begin with ``prefix``: the one that the client's URL
        names unless given. ``max_bytes`` is the largest payload plus headers, None for any size.
        """
        self._database_name = database
        self._names = Names(prefix)
        self._message = MessageMaker(max_bytes=max_bytes, encoder=encoder, clock=clock).make
        self._ticks = Ticks(clock)

    def _collections(self, session: Any) -> tuple[Any, Any]:
        """The outbox and the entities. Raises NoTransaction or ConfigurationError."""
        if not session.in_transaction:
            raise NoTransaction(
                "this session has no transaction open",
                remedy="call add inside session.with_transaction(...) or session.start_transaction()",
            )
        try:
            database = session.client.get_database(self._database_name)
        except NoDefaultDatabase as error:
            raise ConfigurationError(
                "the client's URL names no database", remedy=f'write {type(self).__name__}("shop"), or put it there'
            ) from error
        return database[self._names.outbox], database[self._names.entity]

    def _flow(self, messages: Sequence[Message]) -> Flow[_Call, _Answer, list[Message]]:
        """Entities first, in sorted order; then all messages at once."""
        base_us = self._ticks.draw(len(messages))
        lasts: dict[Entity, _Last] = {}
        for entity, (count, last_index) in sorted(_together(messages).items()):
            lasts[entity] = yield from _advance(entity, count, base_us + last_index)
        documents: list[dict[str, Any]] = []
        versioned: list[Message] = []
        for at_us, message in enumerate(messages, start=base_us):
            if message.key is not None:
                last = lasts.get((message.topic, message.key))
                if last is None:
                    last = yield from _alone(message, at_us)
                at_us, message = _next(last, at_us, message)
            documents.append(_document(message, at_us))
            versioned.append(message)
        if documents:
            yield _Insert(documents)
        return versioned


class MongoOutbox(_Adding):
    """Adds messages to transactions of a MongoClient."""

    def add(
        self,
        session: ClientSession,
        topic: str,
        payload: object,
        **attributes: Unpack[Attributes],
    ) -> Message:
        """Add one message to the transaction that ``session`` has open; the arguments are those of ``NewMessage``.

        Returns it with its version. Two transactions that add to one entity at the same time conflict: the later one
        gets the driver's error with the label TransientTransactionError, for which ``with_transaction`` begins anew.

        Raises MessageRefused, NoTransaction, ConfigurationError, VersionConflict (the transaction has to be aborted),
        and the driver's own errors.
        """
        new = NewMessage(topic, payload, **attributes)
        return self.add_all(session, [new])[0]

    def add_all(self, session: ClientSession, messages: Iterable[NewMessage]) -> list[Message]:
        """Add many messages; each entity's keep their order. Returns them in the order given. Raises what ``add``
        raises.
        """
        made = [self._message(new) for new in messages]
        if not isinstance(session, ClientSession):
            raise _wrong(self, session, use="AsyncMongoOutbox with the session of an AsyncMongoClient, and await it")
        outbox, entities = self._collections(session)

        def execute(call: _Call) -> _Answer:
            if isinstance(call, _Insert):
                outbox.insert_many(call.documents, session=session)
                return None
            try:
                found: _Answer = entities.find_one_and_update(
                    {"_id": call.entity}, call.pipeline, upsert=True, session=session
                )
            except DuplicateKeyError as error:
                raise _conflict(error) from error
            return found

        return run(self._flow(made), execute)


class AsyncMongoOutbox(_Adding):
    """Adds messages to transactions of an AsyncMongoClient."""

    async def add(
        self,
        session: AsyncClientSession,
        topic: str,
        payload: object,
        **attributes: Unpack[Attributes],
    ) -> Message:
        """The same as ``MongoOutbox.add``."""
        new = NewMessage(topic, payload, **attributes)
        return (await self.add_all(session, [new]))[0]

    async def add_all(self, session: AsyncClientSession, messages: Iterable[NewMessage]) -> list[Message]:
        """The same as ``MongoOutbox.add_all``."""
        made = [self._message(new) for new in messages]
        if not isinstance(session, AsyncClientSession):
            raise _wrong(self, session, use="MongoOutbox with the session of a MongoClient")
        outbox, entities = self._collections(session)

        return await run_async(self._flow(made), partial(execute_async, outbox, entities, session))


async def execute_async(outbox: Any, entities: Any, session: AsyncClientSession, call: _Call) -> _Answer:
    """Do one of the writes in the session's transaction."""
    if isinstance(call, _Insert):
        await outbox.insert_many(call.documents, session=session)
        return None
    try:
        found: _Answer = await entities.find_one_and_update(
            {"_id": call.entity}, call.pipeline, upsert=True, session=session
        )
    except DuplicateKeyError as error:
        raise _conflict(error) from error
    return found


def putting_back(ticks: Ticks, messages: Sequence[Message]) -> Flow[_Call, _Answer, None]:
    """Add messages that were parked, in this order. One with a version keeps it, however old it is."""
    documents: list[dict[str, Any]] = []
    for at_us, message in enumerate(messages, start=ticks.draw(len(messages))):
        if message.key is not None:
            entity = (message.topic, message.key)
            last = yield from _advance(entity, 1 if message.version is None else 0, at_us)
            at_us, numbered = _next(last, at_us, message)
            message = numbered if message.version is None else message
        documents.append(_document(message, at_us))
    if documents:
        yield _Insert(documents)


@dataclass(slots=True)
class _Last:
    """Where an entity stood before: its last version and time."""

    version: int
    at_us: int


def _together(messages: Sequence[Message]) -> dict[Entity, tuple[int, int]]:
    """How many messages each entity gets, and the place of the last one: of those whose versions are all drawn."""
    found: dict[Entity, tuple[int, int]] = {}
    given = {(m.topic, m.key) for m in messages if m.version is not None}
    for index, m in enumerate(messages):
        if m.key is not None and (m.topic, m.key) not in given:
            count, _ = found.get((m.topic, m.key), (0, 0))
            found[m.topic, m.key] = (count + 1, index)
    return found


def _advance(entity: Entity, count: int, at_us: int) -> Flow[_Call, _Answer, _Last]:
    """Lock the entity and move it on by ``count`` versions, to ``at_us`` at least."""
    moved = {
        "version": {"$add": [{"$ifNull": ["$version", 0]}, count]},
        "at": {"$max": [{"$add": [{"$ifNull": ["$at", 0]}, max(count, 1)]}, at_us]},
    }
    before = (yield _Advance(entity_id(*entity), [{"$set": moved}])) or {}
    return _Last(before.get("version", 0), before.get("at", 0))


def _alone(message: Message, at_us: int) -> Flow[_Call, _Answer, _Last]:
    """The same for one message of an entity whose versions the caller gives. Raises VersionConflict."""
    entity, version = (message.topic, message.key or ""), message.version
    if version is None:
        return (yield from _advance(entity, 1, at_us))
    newer = {"$lt": [{"$ifNull": ["$version", 0]}, version]}
    moved = {
        "version": {"$cond": [newer, version, "$version"]},
        "at": {"$max": [{"$add": [{"$ifNull": ["$at", 0]}, 1]}, at_us]},
    }
    before = (yield _Advance(entity_id(*entity), [{"$set": moved}])) or {}
    if before.get("version", 0) >= version:
        raise VersionConflict(
            f"version {version} of {message.key!r} on topic {message.topic!r} is not newer than the last one",
            remedy="somebody else changed the entity: abort, read it again, repeat; or let versions be drawn",
        )
    return _Last(version - 1, before.get("at", 0))


def _next(last: _Last, at_us: int, message: Message) -> tuple[int, Message]:
    """The time of the next message of an entity, above its last one; and the message with its version."""
    last.version, last.at_us = last.version + 1, max(at_us, last.at_us + 1)
    return last.at_us, replace(message, version=last.version)


def _document(message: Message, at_us: int) -> dict[str, Any]:
    state = State.PENDING if message.available_at is None else State.DELAYED
    document: dict[str, Any] = {"_id": position_of(at_us, message.id), "state": int(state), **fields_of(message)}
    document["slot"] = slot_of(message.key, message.id)
    if message.key is not None:
        document |= {"key": message.key, "version": message.version}
    return document


def _wrong(outbox: _Adding, session: object, *, use: str) -> ConfigurationError:
    return ConfigurationError(f"{type(outbox).__name__} cannot use {name_of_class(type(session))}", remedy=f"use {use}")


def _conflict(error: DuplicateKeyError) -> OperationFailure:
    """Two transactions made the entity at the same time: a write conflict like any other, to be tried again."""
    details = {"errorLabels": ["TransientTransactionError"], "code": _WRITE_CONFLICT}
    return OperationFailure(f"another transaction added to the same entity ({error})", _WRITE_CONFLICT, details)
