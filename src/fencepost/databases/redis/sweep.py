"""What a session has read from the bottom upwards and still takes to be there, so that it need not be read again.

It can be kept, because transactions are executed one after the other, and each position is handed out while its
transaction is: nothing ever appears in the stream below an entry that was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fencepost.databases.redis import entry
from fencepost.databases.redis.entry import Entry
from fencepost.message import Position
from fencepost.ports import Lane


class Sweep:
    """One lane's positions in the stream, from the bottom up to ``upto``."""

    def __init__(self) -> None:
        self._lane: Lane | None = None
        self._ids: dict[int, bytes] = {}  # in order of positions
        self._upto = -1
        self._removed: set[bytes] = set()  # while a read runs, which may have seen them before

    def begin(self) -> None:
        """A read begins."""
        self._removed.clear()

    def note(self, lane: Lane, entries: Sequence[Entry], after: int | None) -> None:
        """These were read above ``after``; from the bottom where it is None."""
        if after is None or lane != self._lane:
            self._lane, self._ids, self._upto = lane, {}, -1
        if after is None or after <= self._upto:
            there = [raw_id for raw_id, _ in entries if raw_id not in self._removed]
            self._ids.update([(entry.position_of(raw_id), raw_id) for raw_id in there])
            self._upto = max(self._upto, entry.position_of(entries[-1][0]) if entries else -1)

    def forget(self, names: Iterable[str]) -> None:
        """Entries that this session has removed."""
        removed = [name.encode() for name in names]
        self._removed.update(removed)
        for raw_id in removed:
            position = entry.position_of(raw_id)
            if self._ids.get(position) == raw_id:
                del self._ids[position]

    def upto(self, lane: Lane, position: int) -> list[Position] | None:
        """The positions up to this one that are not removed; None where they were not read."""
        if lane != self._lane or position > self._upto:
            return None
        return [each for each in self._ids if each <= position]
