"""Who works where: a lane, and one tenure on it."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.message import SLOTS


@dataclass(frozen=True, slots=True)
class Lane:
    """A contiguous range of slots with exactly one owner at a time. ``relay`` is the relay's name (a-z 0-9 -),
    ``index`` counts from 0.
    """

    relay: str
    index: int = 0
    first_slot: int = 0
    last_slot: int = SLOTS - 1

    @property
    def name(self) -> str:
        """The lane's name at the broker and at the lease store, for example "orders.0"."""
        return f"{self.relay}.{self.index}"

    @property
    def whole(self) -> bool:
        """True where the lane has every slot, so that a query need not look at slots at all."""
        return self.first_slot == 0 and self.last_slot == SLOTS - 1


@dataclass(frozen=True, slots=True)
class Term:
    """One tenure of one owner. ``token`` only grows from term to term of a name."""

    name: str
    owner: str
    token: int
    early: bool = False
    """The last owner's session was seen to be gone before its lease had ended."""
