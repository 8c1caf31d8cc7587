"""What an outbox keeps inside a business document, in one field; and the indexes that find such documents.

::

    fencepost_outbox: {
        waiting: [...]   the messages, in the order in which they were pushed; each has its own time, "at"
        pushed: 17       how many there have been: the version of the newest one
        next: ...        at most the time of the first one that may be published; absent where there is none
        high: ...        at least the highest time that was pushed
        due: ...         when the first delayed one may be published; absent where there is none
        changed: 5       how often a relay has changed this, so that it never works on what it has not seen
        top: ...         the highest time among those that were taken out
        fixed: [...]     version and time of the first of those that wait, where they cannot be counted any more
        parked: [...]    messages that were set aside
    }

An application pushes, and adds to ``pushed``, ``next``, ``high`` and ``due``, in one write of its own. A relay does all
the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.databases.mongodb.indexes import Index, Needed


@dataclass(frozen=True, slots=True)
class Field:
    """The field of one outbox, and the paths below it. ``prefix`` tells several outboxes apart."""

    prefix: str

    @property
    def name(self) -> str:
        """The field."""
        return f"{self.prefix}outbox"

    def path(self, *parts: str | int) -> str:
        """A path below the field."""
        return ".".join([self.name, *map(str, parts)])

    def index(self, part: str) -> str:
        """The name of the index on one of ``next``, ``due`` and ``parked``."""
        return f"{self.name}_{part}"

    def needed(self, collections: tuple[str, ...]) -> list[Needed]:
        """What must be there. Documents without messages are in none of the indexes."""
        found = [
            Index(self.index("next"), [(self.path("next"), 1)], sparse=True),
            Index(self.index("due"), [(self.path("due"), 1)], sparse=True),
            Index(self.index("parked"), [(self.path("parked", "parked_us"), 1)], sparse=True),
        ]
        return [*(Needed(name, found, own=False) for name in collections), Needed(f"{self.prefix}lease")]
