"""What the models must not break: of the messages that the database has committed and has not forgotten, each is
published once, those of a key in the order in which they were added.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import NamedTuple


class Seen(NamedTuple):
    """Messages: those that a reader of the broker sees, those that are committed, those that still wait as rows.

    Message m has key m % ``keys``.
    """

    published: tuple[int, ...]
    committed: frozenset[int]
    waiting: Collection[int]
    keys: int


def violation(seen: Seen) -> str | None:
    """The promise that is broken."""
    if len(set(seen.published)) < len(seen.published):
        return "repeated"
    if seen.committed.difference(seen.published).difference(seen.waiting):
        return "lost"
    return "out of order" if _overtaken(seen) else None


def _overtaken(seen: Seen) -> tuple[int, int] | None:
    """A message that is published, and an older one of its key that is not, or is published later."""
    for key in range(seen.keys):
        wanted = sorted([message for message in seen.committed if message % seen.keys == key])
        found = [message for message in seen.published if message in seen.committed and message % seen.keys == key]
        for old, new in zip(wanted, found, strict=False):
            if old != new:
                return new, old
    return None


def told(kind: str, seen: Seen) -> str:
    """The violation in a sentence."""
    if kind == "repeated":
        twice = next(message for message in seen.published if seen.published.count(message) > 1)
        return f"m{twice} is published twice."
    if kind == "out of order":
        overtaken = _overtaken(seen)
        assert overtaken is not None
        return "m{} is published before m{}, which has the same key.".format(*overtaken)
    if kind == "lost":
        missing = min(seen.committed.difference(seen.published))
        return f"m{missing} is lost: it was committed, it is not published, and its row is gone."
    missing = next(message for message in count(1) if message not in seen.published)
    return f"m{missing} will never be published, whatever happens from here on."
