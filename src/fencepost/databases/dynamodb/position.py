"""Positions: a time, the slot, and 4 bytes of the message's id, as 24 hexadecimal digits.

The time counts microseconds since 1970. It is the writer's clock, or one more than the position of the entity's last
message where the clock does not say more: the entity's item is read before and is a condition of the transaction, so
for one key positions grow with versions and commits, whatever the clocks say. The slot tells in which partition a
message stands. The digest of the id keeps two messages of one slot and one microsecond apart, and makes sure that no
position ever comes back with another message: not even in a table that was restored from a backup.
"""

from __future__ import annotations

from threading import Lock

from fencepost.clock import Clock
from fencepost.message import SLOTS, Position, microseconds
from fencepost.receipt import digest

LENGTH = 24
LOWEST = "0" * LENGTH
_TIME, _SLOT = 14, 16  # where the parts end


def position_of(time_us: int, slot: int, message_id: str) -> str:
    """The position of a message."""
    return f"{time_us:014x}{slot:02x}{digest(message_id):08x}"


def time_in(position: str) -> int:
    """The time of a position in microseconds."""
    return int(position[:_TIME], 16)


def slot_in(position: str) -> int:
    """The slot of a position."""
    return int(position[_TIME:_SLOT], 16) % SLOTS


def names(position: Position, message_id: str) -> bool:
    """Whether a position can be that of a message with this id."""
    return isinstance(position, str) and len(position) == LENGTH and position[_SLOT:] == f"{digest(message_id):08x}"


class Times:
    """Times that only grow, for all messages of one process. May be used by several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._last, self._lock = clock, 0, Lock()

    def next_us(self, above: int = 0) -> int:
        """A time that was not given out before, and is larger than ``above``."""
        with self._lock:
            self._last = max(microseconds(self._clock.now()), self._last + 1, above + 1)
            return self._last
