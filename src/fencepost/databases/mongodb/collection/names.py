"""The collections and indexes of an outbox, what a document's state says, how an entity is called."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class State(enum.IntEnum):
    """What a message waits for. One that is in doubt is pending, with a token."""

    PENDING = 0
    DELAYED = 1


PENDING_INDEX = "pending"
"""state, position, slot: what a relay reads, in order, and from which the lane can be told without the document."""

DUE_INDEX = "due"
"""available_us, of those that are delayed."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the collections."""

    prefix: str

    @property
    def outbox(self) -> str:
        """Messages that wait."""
        return f"{self.prefix}outbox"

    @property
    def entity(self) -> str:
        """One small document for each topic and key: its last version and time."""
        return f"{self.prefix}entity"

    @property
    def parked(self) -> str:
        """Messages that were set aside."""
        return f"{self.prefix}parked"

    @property
    def lease(self) -> str:
        """Who leads."""
        return f"{self.prefix}lease"


def entity_id(topic: str, key: str) -> str:
    """The id of an entity's document. No topic has a blank in it."""
    return f"{topic} {key}"
