"""An entity (topic and key) inside one transaction: what its item said, and what it will say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.databases.dynamodb.items import number
from fencepost.databases.dynamodb.position import time_in
from fencepost.databases.dynamodb.tables import entity_key
from fencepost.errors import VersionConflict
from fencepost.message import Message


class Entity:
    """``version`` and ``position`` are those of its last message, 0 and None before the first one."""

    def __init__(self, topic: str, key: str, item: Mapping[str, Any] | None) -> None:
        self._topic, self._key, self._read = topic, key, item
        self.version = 0 if item is None else int(item["version"]["N"])
        self.position: str | None = None if item is None else item["position"]["S"]
        self._own: int | None = None

    @property
    def time_us(self) -> int:
        """The time of its last position."""
        return 0 if self.position is None else time_in(self.position)

    def next_version(self, message: Message) -> int:
        """The version of its next message. Raises VersionConflict where the message has one that is not newer."""
        if message.version is not None and message.version <= self.version:
            raise self._conflict(message.version, self.version)
        return self.version + 1 if message.version is None else message.version

    def grow(self, message: Message, position: str, *, own: bool) -> None:
        """Its next message is this one. ``own``: the application gave its version."""
        assert message.version is not None  # noqa: S101 - a message with a key has one
        self.version, self.position = message.version, position
        if own and self._own is None:
            self._own = message.version

    def update(self, table: str) -> dict[str, Any]:
        """The write that moves its item on, if nobody else has moved it."""
        assert self.position is not None  # noqa: S101 - it has grown
        values = {":v": number(self.version), ":p": {"S": self.position}}
        condition = "attribute_not_exists(pk)"
        if self._read is not None:
            condition = "#v = :read_v AND #p = :read_p"
            values |= {":read_v": self._read["version"], ":read_p": self._read["position"]}
        return {
            "Update": {
                "TableName": table,
                "Key": entity_key(self._topic, self._key),
                "UpdateExpression": "SET #v = :v, #p = :p",
                "ConditionExpression": condition,
                "ExpressionAttributeNames": {"#v": "version", "#p": "position"},
                "ExpressionAttributeValues": values,
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }

    def conflict(self, found: Mapping[str, Any]) -> VersionConflict | None:
        """Why its condition was not met, where the application's own version was not newer than what was found."""
        version = int(found["version"]["N"]) if "version" in found else 0
        return self._conflict(self._own, version) if self._own is not None and self._own <= version else None

    def _conflict(self, given: int, last: int) -> VersionConflict:
        return VersionConflict(
            f"version {given} of {self._key!r} on topic {self._topic!r} is not above {last}, the last one",
            remedy="read the entity again, and decide again what is to be done",
        )
