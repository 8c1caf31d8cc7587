"""Where a message stands in an outbox in MongoDB: a time that grows for each key, and the message's own id.

MongoDB has no sequence that all writers could share without waiting for each other. So a position is made by whoever
adds the message: the time in microseconds, moved up where the key's last message has one that is not smaller. As the
id is part of it, no position is ever handed out to another message, whatever state the database falls back to.
"""

from __future__ import annotations

import threading
from base64 import urlsafe_b64encode

from fencepost.clock import Clock
from fencepost.message import Position, microseconds

_TIME_DIGITS = 14  # of base 16: enough until the year 4253
TIME_MAX = 16**_TIME_DIGITS - 1


def position_of(at_us: int, message_id: str) -> str:
    """The position of a message: 36 ASCII characters that sort by time first."""
    return f"{at_us:014x}{_packed(message_id)}"


def time_of(position: Position) -> int:
    """The time in a position, in microseconds. At most -1 or ``TIME_MAX`` where the text is none of ours."""
    try:
        return int(str(position)[:_TIME_DIGITS], 16)
    except ValueError:
        return -1


def belongs(position: Position, message_id: str) -> bool:
    """Whether a position is that of the message with this id."""
    try:
        return isinstance(position, str) and position[_TIME_DIGITS:] == _packed(message_id)
    except ValueError:
        return False


def _packed(message_id: str) -> str:
    """The 16 bytes of a UUID as 22 characters."""
    return urlsafe_b64encode(bytes.fromhex(message_id.replace("-", ""))).decode().rstrip("=")


class Ticks:
    """The times of one process: the clock's, and never the same twice. May be used by several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_us = 0
        self._lock = threading.Lock()

    def draw(self, count: int = 1) -> int:
        """The first of ``count`` times, each one microsecond after the other, which nobody else gets."""
        now_us = microseconds(self._clock.now())
        with self._lock:
            first_us = max(now_us, self._last_us + 1)
            self._last_us = first_us + count - 1
        return first_us
