"""Adding messages inside the business document itself: the update and the message are one write of one document.

    outbox = EmbeddedOutbox()
    orders.update_one(
        {"_id": 1, "status": "open"},
        outbox.update("orders", {"id": 1}, type="paid", set={"status": "paid"}),
    )

No transaction is needed, no session, and nothing is sent to the server here: it works with every deployment, and with
every client that takes an update. What these calls return is used once: a repeated one would repeat the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.databases.mongodb.embedded.document import DOCUMENT
from fencepost.databases.mongodb.embedded.fields import Field
from fencepost.databases.mongodb.positions import Ticks
from fencepost.databases.mongodb.records import fields_of
from fencepost.errors import ConfigurationError
from fencepost.newmessage import JSON, Attributes, Encoder, MessageMaker, NewMessage, name_of_class

_STAND_IN = "document"  # for the check of a message whose key is not known here


class EmbeddedOutbox:
    """Makes updates and documents that carry messages.

    ``prefix`` is that of the relay's configuration: messages wait in the field ``fencepost_outbox``. ``max_bytes`` is
    the largest payload plus headers, None for any size that a document can have.
    """

    def __init__(
        self,
        *,
        prefix: str = "fencepost_",
        max_bytes: int | None = 950_000,
        encoder: Encoder = JSON,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._field = Field(prefix)
        self._make = MessageMaker(max_bytes=max_bytes, encoder=encoder, clock=clock).make
        self._ticks = Ticks(clock)

    def update(
        self,
        topic: str,
        payload: object,
        *,
        set: Mapping[str, object] | None = None,  # noqa: A002
        changes: Mapping[str, Mapping[str, object]] | None = None,
        **attributes: Unpack[Attributes],
    ) -> dict[str, Any]:
        """An update of one document that adds one message to it: for update_one, find_one_and_update, UpdateOne.

        The arguments are those of ``NewMessage``, but that the key is the document's id unless you give another one,
        or None for no key; a key belongs to one document. Messages of a document are numbered 1, 2, 3, ...; give
        ``version`` for all of them or for none. ``set`` are the fields that you set, ``changes`` your other operators
        ({"$inc": {"total": 5}}).

        Raises MessageRefused, and ConfigurationError for changes that cannot be part of it.
        """
        attributes.setdefault("key", DOCUMENT)
        new = NewMessage(topic, payload, **attributes)
        return self.update_all([new], set=set, changes=changes)

    def update_all(
        self,
        messages: Iterable[NewMessage],
        *,
        set: Mapping[str, object] | None = None,  # noqa: A002
        changes: Mapping[str, Mapping[str, object]] | None = None,
    ) -> dict[str, Any]:
        """The same for many messages. Their ``key`` is None for no key: write ``DOCUMENT`` for the document's id."""
        merged = self._changes(changes or {}, set or {})
        made = self._made(messages)
        if not made:
            return merged
        for operator, fields in pushing(self._field, made).items():
            merged[operator] = {**merged.get(operator, {}), **fields}
        return merged

    def insert(
        self,
        document: Mapping[str, Any],
        topic: str,
        payload: object,
        **attributes: Unpack[Attributes],
    ) -> dict[str, Any]:
        """A copy of a new document with one message in it: for insert_one, insert_many, InsertOne.

        The arguments are those of ``update``. Raises MessageRefused, and ConfigurationError where the document has
        messages already.
        """
        attributes.setdefault("key", DOCUMENT)
        new = NewMessage(topic, payload, **attributes)
        return self.insert_all(document, [new])

    def insert_all(self, document: Mapping[str, Any], messages: Iterable[NewMessage]) -> dict[str, Any]:
        """The same for many messages, whose keys are as in ``update_all``."""
        if self._field.name in document:
            raise ConfigurationError(
                f"the document has a field {self._field.name} already", remedy="insert it without, or update it"
            )
        made = self._made(messages)
        if not made:
            return dict(document)
        fields = {"waiting": made, "pushed": len(made), "high": made[-1]["at"], **_lowest(made)}
        return {**document, self._field.name: fields}

    def idle(self) -> dict[str, Any]:
        """A filter for documents without a message that waits: only those may be deleted, or the message is lost."""
        return {self._field.path("waiting", 0): {"$exists": False}}

    def _made(self, messages: Iterable[NewMessage]) -> list[dict[str, Any]]:
        checked = [self._checked(new) for new in messages]
        first_us = self._ticks.draw(len(checked))
        return [{"at": at_us, **fields} for at_us, fields in enumerate(checked, start=first_us)]

    def _checked(self, new: NewMessage) -> dict[str, Any]:
        at_document = new.key == DOCUMENT
        message = self._make(new._replace(key=_STAND_IN) if at_document else new)
        fields = fields_of(message)
        if not at_document:
            fields["key"] = message.key
        if message.version is not None:
            fields["version"] = message.version
        return fields

    def _changes(self, changes: Mapping[str, Any], sets: Mapping[str, object]) -> dict[str, dict[str, Any]]:
        """The caller's own operators, copied. Raises ConfigurationError."""
        if not isinstance(changes, Mapping):
            raise ConfigurationError(
                f"changes are {name_of_class(type(changes))}", remedy='pass operators, as {"$inc": {"total": 5}}'
            )
        merged = {operator: dict(fields) for operator, fields in changes.items() if operator.startswith("$")}
        if len(merged) < len(changes):
            raise ConfigurationError(
                "changes without an operator would replace the document, and the messages in it",
                remedy='write {"$set": {...}}',
            )
        if sets:
            merged["$set"] = {**merged.get("$set", {}), **sets}
        name = self._field.name
        taken = [p for fields in merged.values() for p in fields if p == name or p.startswith(f"{name}.")]
        if taken:
            raise ConfigurationError(f"{taken[0]!r} is the outbox's own", remedy="leave it to the outbox")
        return merged


def pushing(field: Field, made: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The update that adds messages to a document: one at least, each with its own time ("at"), in their order."""
    path = field.path
    update: dict[str, dict[str, Any]] = {
        "$push": {path("waiting"): {"$each": made}},
        "$inc": {path("pushed"): len(made)},
        "$max": {path("high"): made[-1]["at"]},
    }
    lowest = {path(name): value for name, value in _lowest(made).items()}
    return update | {"$min": lowest} if lowest else update


def _lowest(made: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The first time of those that may be published, and the first one at which a delayed one may."""
    now = [fields["at"] for fields in made if "available_us" not in fields]
    later = [fields["available_us"] for fields in made if "available_us" in fields]
    return ({"next": min(now)} if now else {}) | ({"due": min(later)} if later else {})
