"""One business document with messages: which of them wait, where they stand, and the writes that change that.

A message's version and time follow from the order of pushes alone: the version is how many there have been, the time is
its own, moved up where an earlier message of the document has one that is not smaller (clocks of applications differ).
What is taken out of the middle would spoil the count, so the same write notes down what the others have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from bson import ObjectId, json_util

from fencepost.databases.mongodb.embedded.fields import Field
from fencepost.databases.mongodb.positions import position_of
from fencepost.databases.mongodb.records import stored
from fencepost.message import KEY_CHARACTERS_MAX, Stored, slot_of

DOCUMENT = "\x00document"
"""As ``key``: the id of the document, which is the default. (No key of an application has such a character.)"""

_NOT_IN_KEYS = {chr(number) for number in (*range(0x20), 0x7F)}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message of a document: its place in the array, its version and time, and what it says."""

    index: int
    version: int
    at_us: int
    fields: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The message's id."""
        return str(self.fields["id"])

    @property
    def position(self) -> str:
        """Where it stands in the outbox."""
        return position_of(self.at_us, self.id)

    @property
    def delayed(self) -> bool:
        """Whether it may not be published yet."""
        return "available_us" in self.fields


class Document:
    """A document as it was read. ``fields`` is the content of the outbox's field."""

    def __init__(self, field: Field, document_id: object, fields: Mapping[str, Any]) -> None:
        self.id = document_id
        self._field, self._fields = field, fields
        self.waiting = _waiting(fields)

    def stored(self, one: Waiting) -> Stored:
        """A message of it, as a relay publishes it."""
        key = self._key(one)
        return stored(one.fields, one.position, key, None if key is None else one.fields.get("version", one.version))

    def slot(self, one: Waiting) -> int:
        """The slot of one of its messages."""
        return slot_of(self._key(one), one.id)

    def _key(self, one: Waiting) -> str | None:
        key: str | None = one.fields.get("key", DOCUMENT)
        return key_of(self.id) if key == DOCUMENT else key

    # -- writes -------------------------------------------------------------------------------------------------------

    @property
    def unchanged(self) -> dict[str, Any]:
        """The filter that matches it only as it was read."""
        seen = {self._field.path(name): self._fields.get(name) for name in ("pushed", "changed")}
        return {"_id": self.id, **seen}

    def without(self, gone: Sequence[Waiting], parked: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """The update that takes messages out, and puts ``parked`` among those that were set aside."""
        path, indexes = self._field.path, {one.index for one in gone}
        rest = [one for one in self.waiting if one.index not in indexes]
        update = self._counted(rest, max(one.at_us for one in gone))
        push: dict[str, Any] = {}
        if indexes == set(range(len(indexes))):
            push[path("waiting")] = {"$each": [], "$slice": -len(rest)}
            fixed = list(self._fields.get("fixed", ()))[len(indexes) :]
        else:
            ids, times = [one.id for one in gone], [one.fields["at"] for one in gone]
            update["$pull"] = {path("waiting"): {"id": {"$in": ids}, "at": {"$in": times}}}
            fixed = [[one.version, one.at_us] for one in rest]
        _put(update, path("fixed"), fixed or None)
        if parked:
            push[path("parked")] = {"$each": list(parked)}
        return _without_empty({**update, "$push": push})

    def marked(self, marks: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
        """The update that sets fields of single messages, by their place in the array."""
        path = self._field.path
        sets = {path("waiting", index, name): v for index, fields in marks.items() for name, v in fields.items()}
        return {"$set": sets, "$inc": {path("changed"): 1}}

    def failed(self, one: Waiting, error: Mapping[str, Any]) -> dict[str, Any]:
        """The update that counts one more attempt of a message."""
        update = self.marked({one.index: error})
        update["$inc"][self._field.path("waiting", one.index, "attempts")] = 1
        return update

    def released(self, due: Collection[Waiting]) -> dict[str, Any]:
        """The update that makes delayed messages pending."""
        path = self._field.path
        later = {one.index for one in self.waiting if one.delayed} - {one.index for one in due}
        update = self._counted(self.waiting, 0, still_delayed=lambda one: one.index in later)
        update["$unset"] |= {path("waiting", one.index, "available_us"): "" for one in due if one.delayed}
        return _without_empty(update)

    def _counted(
        self, rest: Sequence[Waiting], gone_us: int, still_delayed: Callable[[Waiting], bool] = lambda one: one.delayed
    ) -> dict[str, Any]:
        """The update of everything that is derived from the messages that stay."""
        path, top = self._field.path, max(self._fields.get("top", 0), gone_us)
        update: dict[str, Any] = {"$inc": {path("changed"): 1}, "$set": {}, "$unset": {}}
        _put(update, path("next"), min((one.at_us for one in rest if not still_delayed(one)), default=None))
        _put(update, path("due"), min((one.fields["available_us"] for one in rest if still_delayed(one)), default=None))
        update["$set"] |= {path("top"): top, path("high"): max([top, *(one.at_us for one in self.waiting)])}
        return update


def _put(update: dict[str, Any], path: str, value: object) -> None:
    """Set a field, or take it away where there is nothing to say."""
    if value is None:
        update["$unset"][path] = ""
    else:
        update["$set"][path] = value


def _without_empty(update: dict[str, Any]) -> dict[str, Any]:
    """An operator without fields is an error to some servers."""
    return {operator: fields for operator, fields in update.items() if fields}


def _waiting(fields: Mapping[str, Any]) -> list[Waiting]:
    messages: Sequence[Mapping[str, Any]] = fields.get("waiting", ())
    fixed: Sequence[Sequence[int]] = fields.get("fixed", ())
    first_version = fields.get("pushed", len(messages)) - len(messages) + 1
    last_us, found = fields.get("top", 0), []
    for index, message in enumerate(messages):
        if index < len(fixed):
            version, at_us = fixed[index]
        else:
            version, at_us = first_version + index, max(message["at"], last_us + 1)
        last_us = max(last_us, at_us)
        found.append(Waiting(index, version, at_us, message))
    return found


def key_of(document_id: object) -> str:
    """A document's id as a key: its text where it has a plain one, else canonical JSON; a digest where that is no key.

    The same id gives the same key, always.
    """
    if isinstance(document_id, str):
        text = document_id
    elif isinstance(document_id, int | ObjectId | UUID) and not isinstance(document_id, bool):
        text = str(document_id)
    else:
        text = json_util.dumps(document_id, json_options=json_util.CANONICAL_JSON_OPTIONS)
    usable = 0 < len(text) <= KEY_CHARACTERS_MAX and text == text.strip() and not _NOT_IN_KEYS.intersection(text)
    return text if usable else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
