"""Messages that were under way when a connection ended, perhaps because of one of them.

A server does not say which one it was, and some say nothing at all. From then on each of them is sent alone, after all
others, until the server has said something of it: the next time that a connection ends so, it is plain whom it is
about, and nothing else suffers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

_KEPT_MAX = 10_000


class Suspects:
    """Shared by all lanes of a broker, by the ids of messages."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def has(self, message_id: str) -> bool:
        """True where a message must be sent alone."""
        return bool(self._ids) and message_id in self._ids

    def ranks(self) -> dict[str, int]:
        """Whose turn it is, the lowest number first."""
        return {message_id: rank for rank, message_id in enumerate(self._ids)}

    def add(self, ids: Iterable[str]) -> None:
        """A connection has ended with these under way. Their turn comes after that of the others."""
        for message_id in ids:
            self._ids[message_id] = None
            self._ids.move_to_end(message_id)
        while len(self._ids) > _KEPT_MAX:  # what was settled elsewhere meanwhile must not fill the memory
            self._ids.popitem(last=False)

    def clear(self, message_id: str) -> None:
        """The server has said something of this one."""
        if self._ids:
            self._ids.pop(message_id, None)
