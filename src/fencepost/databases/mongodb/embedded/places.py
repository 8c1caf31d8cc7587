"""Which document a message is in, of those that a session has read: so that settling needs no search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fencepost.message import Position

PLACES_MAX = 200_000


class Place(NamedTuple):
    """A document: the number of its collection, and its id."""

    collection: int
    document_id: Any


class Places:
    """The newest ones; older ones are forgotten, and searched for where they are needed after all."""

    def __init__(self) -> None:
        self._places: dict[Position, Place] = {}

    def keep(self, position: str, place: Place) -> None:
        """Remember one."""
        if len(self._places) >= PLACES_MAX:
            self._places.pop(next(iter(self._places)))
        self._places[position] = place

    def forget(self, positions: Iterable[Position]) -> None:
        """These are settled."""
        for position in positions:
            self._places.pop(position, None)

    def unknown(self, positions: Iterable[str]) -> list[str]:
        """Those that have to be searched for."""
        return sorted(position for position in positions if position not in self._places)

    def documents(self, collection: int, positions: Iterable[str]) -> list[Any]:
        """The ids of the documents in a collection that have one of these messages, each once."""
        found = (self._places.get(position) for position in positions)
        return list({repr(p.document_id): p.document_id for p in found if p and p.collection == collection}.values())
