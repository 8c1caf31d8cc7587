"""The keys of a broker in Redis: what they are called and what is in them.

All of them share the prefix, and in a cluster its hash tag, so that one script may touch them together.
"""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.ports import Lane

_RESERVED = ("fencepost:", "fencepost_")
"""The lanes' own keys, and those of an outbox in the same Redis."""


@dataclass(frozen=True, slots=True)
class Keys:
    """``prefix`` begins the name of every key."""

    prefix: str

    def stream(self, topic: str) -> str:
        """A stream: the messages of a topic."""
        return f"{self.prefix}{topic}"

    def lane(self, lane: Lane) -> str:
        """A hash: who took the lane over last. ``fence`` counts the take-overs, ``claim`` is this one's alone."""
        return f"{self.prefix}fencepost:lane:{lane.name}"

    def receipts(self, lane: Lane) -> str:
        """A stream: the lane's last receipts."""
        return f"{self.prefix}fencepost:receipts:{lane.name}"


def fault(topic: str) -> str:
    """Why a topic cannot be a stream, "" where it can."""
    if not topic:
        return "is empty"
    if topic.startswith(_RESERVED):
        return f"begins with {topic[:10]!r}, as keys of Fencepost's own do"
    try:
        topic.encode()
    except UnicodeEncodeError:
        return "cannot be written as UTF-8"
    return ""
