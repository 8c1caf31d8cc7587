"""Adding messages inside the application's own MULTI/EXEC, or its own script: the writing side of an outbox in Redis.

    outbox = RedisOutbox()
    with client.pipeline() as pipe:
        pipe.hset("order:1", mapping={"status": "placed"})               # the business
        outbox.add(pipe, "orders", {"id": 1}, key="1", type="placed")    # and what it has to tell
        pipe.execute()                                                   # both, or neither

Pipelines of ``redis`` and of ``redis.asyncio`` alike: adding only queues a command and is never awaited.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Unpack, get_args

from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.databases.redis import entry, pipelines
from fencepost.databases.redis.keys import keys_of
from fencepost.databases.redis.scripts import ADD, ADD_ONE
from fencepost.errors import ConfigurationError, VersionConflict
from fencepost.message import Message
from fencepost.newmessage import JSON, Attributes, Encoder, MessageMaker, NewMessage
from fencepost.resp.script import HEADER

Versions = Literal["counter", "position"]

_Entity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A message for a script of the application: its ``keys``, to be declared in this order, and its ``argument``."""

    message: Message
    keys: tuple[str, ...]
    argument: bytes


@dataclass(slots=True)
class _Open:
    """What is known of a pipeline's transaction: the last versions of watched entities, and whether the script is among
    its commands. ``queue`` tells one transaction of a pipeline from the next.
    """

    queue: list[Any]
    versions: dict[_Entity, int] = field(default_factory=dict)
    has_script: bool = False


class RedisOutbox:
    """Adds messages to transactions of redis-py, sync and async."""

    def __init__(
        self,
        *,
        versions: Versions = "counter",
        prefix: str = "fencepost_",
        max_bytes: int | None = 950_000,
        encoder: Encoder = JSON,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``versions``: "counter" keeps a number for each entity and counts its messages 1, 2, 3, ...; "position"
        leaves nothing behind and takes the message's position, which grows for each entity too, but with gaps. All
        writers of an outbox use the same.

        ``prefix`` begins the names of its keys; in a cluster it has the hash tag of the business keys, for example
        "{shop}:fencepost:". ``max_bytes`` is the largest payload plus headers, None for any size. Raises
        ConfigurationError for an unknown ``versions`` or an unusable prefix.
        """
        if versions not in get_args(Versions):
            known = ", ".join(map(repr, get_args(Versions)))
            raise ConfigurationError(f"versions={versions!r}", remedy=f"use one of {known}")
        self._keys, self._counted = keys_of(prefix), versions == "counter"
        self._make = MessageMaker(max_bytes=max_bytes, encoder=encoder, clock=clock).make
        self._open: weakref.WeakKeyDictionary[Any, _Open] = weakref.WeakKeyDictionary()

    def add(
        self,
        pipe: object,
        topic: str,
        payload: object,
        **attributes: Unpack[Attributes],
    ) -> Message:
        """Queue one message in the transaction of ``pipe``; the arguments are those of ``NewMessage``.

        Returns it. A version that is drawn is drawn at EXEC: it is None here, and execute() returns [position, version]
        at the message's place. One's own ``version`` needs ``watch`` before. Raises MessageRefused, NoTransaction,
        ConfigurationError and VersionConflict; then nothing is queued.
        """
        new = NewMessage(topic, payload, **attributes)
        return self.add_all(pipe, [new])[0]

    def add_all(self, pipe: object, messages: Iterable[NewMessage]) -> list[Message]:
        """Queue many messages, in this order. Raises what ``add`` raises; then none is queued."""
        pipelines.must_be_open(pipe)
        made = [self._make(new) for new in messages]
        self._check_versions(pipe, made)
        for message in made:
            self._queue(pipe, message)
        return made

    def watch(self, pipe: Any, topic: str, key: str) -> int | Awaitable[int]:
        """Watch an entity on a pipeline, before ``multi()``, and return its last version (0: it has none).

        From then on ``add`` takes one's own versions of it, and EXEC fails (redis.WatchError) where somebody else has
        added to the entity, or to another one of its slot, meanwhile: repeat it. With an async pipeline the result is
        awaited. Raises NoTransaction.
        """
        pipelines.must_be_watchable(pipe)
        if not self._counted:
            raise ConfigurationError('versions="position" keeps no versions', remedy='use versions="counter"')
        name = self._keys.entity(topic, key)
        watching = pipe.watch(name)
        if isinstance(watching, Awaitable):
            return self._watch(watching, pipe, name, (topic, key))
        return self._note(pipe, (topic, key), pipe.hget(name, f"{topic} {key}"))

    def prepare(
        self,
        topic: str,
        payload: object,
        **attributes: Unpack[Attributes],
    ) -> Prepared:
        """A message for a script of one's own; see ``script``. Raises MessageRefused."""
        new = NewMessage(topic, payload, **attributes)
        return self._prepared(self._make(new))

    @staticmethod
    def script(body: str) -> str:
        """The text of a Lua script whose ``body`` may call ``fencepost_add(first, argument)``.

        ``first`` says where in KEYS the keys of a ``Prepared`` begin, ``argument`` is its argument. It returns
        {position, version}, or raises an error that begins with CONFLICT, which ends the script: call it before the
        script writes anything, where versions are one's own.
        """
        return f"{HEADER}{ADD}{body}"

    def _prepared(self, message: Message) -> Prepared:
        k = self._keys
        counted = self._counted and message.key is not None
        last = k.entity(message.topic, message.key) if counted and message.key is not None else k.outbox
        names = (k.outbox, k.position, k.delayed, k.due, last)
        return Prepared(message, names, entry.argument(message, counted=self._counted))

    def _queue(self, pipe: Any, message: Message) -> None:
        """The first message of a transaction brings the script along, so that the others find it on the server."""
        prepared, known = self._prepared(message), self._known(pipe)
        call = ("EVALSHA", ADD_ONE.sha) if known.has_script else ("EVAL", ADD_ONE.text)
        pipe.execute_command(*call, len(prepared.keys), *prepared.keys, prepared.argument)
        known.has_script = True

    def _known(self, pipe: Any) -> _Open:
        queue, known = pipelines.queue(pipe), self._open.get(pipe)
        if known is None or known.queue is not queue:
            known = self._open[pipe] = _Open(queue)
        return known

    def _check_versions(self, pipe: Any, messages: Iterable[Message]) -> None:
        if not self._counted:
            return
        last = dict(self._known(pipe).versions)
        for message in messages:
            entity = (message.topic, message.key or "")
            if message.version is not None:
                if entity not in last:
                    raise _unchecked(message)
                if message.version <= last[entity]:
                    raise _conflict(message)
                last[entity] = message.version
            elif entity in last:
                last[entity] += 1
        self._known(pipe).versions = last

    async def _watch(self, watching: Awaitable[Any], pipe: Any, name: str, entity: _Entity) -> int:
        await watching
        return self._note(pipe, entity, await pipe.hget(name, " ".join(entity)))

    def _note(self, pipe: Any, entity: _Entity, found: Any) -> int:
        version = self._known(pipe).versions[entity] = int(found or 0)
        return version


def _unchecked(message: Message) -> ConfigurationError:
    return ConfigurationError(
        f"version {message.version} of {message.key!r} on topic {message.topic!r} cannot be checked",
        remedy="call outbox.watch(pipe, topic, key) before pipe.multi(), or let versions be drawn",
    )


def _conflict(message: Message) -> VersionConflict:
    return VersionConflict(
        f"version {message.version} of {message.key!r} on topic {message.topic!r} is not newer than the last one",
        remedy="somebody else changed the entity: read it again, repeat; or let versions be drawn",
    )


def with_version(message: Message, reply: Iterable[Any]) -> Message:
    """The message with the version that EXEC returned at its place (or a script): [position, version]."""
    _, version = reply
    return message if message.key is None else replace(message, version=int(version))
