"""The keys of an outbox in Redis: what they are called and what is in them.

All of them share the outbox's prefix, and in a cluster its hash tag, so that one script may touch several.
"""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.errors import ConfigurationError
from fencepost.message import slot_of


@dataclass(frozen=True, slots=True)
class Keys:
    """``prefix`` begins the name of every key."""

    prefix: str

    @property
    def outbox(self) -> str:
        """A stream: messages that wait. An entry's id is POSITION-DIGEST (see entry.py)."""
        return f"{self.prefix}outbox"

    @property
    def position(self) -> str:
        """A number: the last position that was handed out."""
        return f"{self.prefix}position"

    @property
    def delayed(self) -> str:
        """A stream: messages that were delayed when they were added, from then until they are settled."""
        return f"{self.prefix}delayed"

    @property
    def due(self) -> str:
        """A sorted set: entry ids of delayed messages by the time when they are due, in microseconds since 1970."""
        return f"{self.prefix}due"

    @property
    def released(self) -> str:
        """A sorted set: padded entry ids of delayed messages whose time has come, by position."""
        return f"{self.prefix}released"

    @property
    def tries(self) -> str:
        """A hash: "ENTRY attempts", "ENTRY token" and "ENTRY error" of messages that could not go at once."""
        return f"{self.prefix}tries"

    @property
    def parked(self) -> str:
        """A stream: messages that were set aside; an entry's id has the time, its fields say why."""
        return f"{self.prefix}parked"

    def entity(self, topic: str, key: str) -> str:
        """A hash: the last version of each entity ("TOPIC KEY") of one slot."""
        return f"{self.prefix}entity:{slot_of(key, '')}"

    @property
    def all_but_entities(self) -> tuple[str, ...]:
        """The names of all others."""
        return (self.outbox, self.position, self.delayed, self.due, self.released, self.tries, self.parked)


def keys_of(prefix: str, schema: str | None = None) -> Keys:
    """The keys of an outbox. Raises ConfigurationError where they could not be told apart."""
    if schema is not None:
        raise ConfigurationError("Redis has no schemas", remedy="leave schema out; tell outboxes apart by their prefix")
    if not prefix or not prefix.isprintable():
        raise ConfigurationError(f"the prefix {prefix!r} is not usable", remedy="write printable text")
    return Keys(prefix)
