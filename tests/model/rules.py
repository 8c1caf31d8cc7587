"""The rules of the handoff as switches, and how much of the world a search looks at."""

from __future__ import annotations

from dataclasses import dataclass

ENOUGH = 64


@dataclass(frozen=True, slots=True)
class Rules:
    """As designed. Each rule can be taken away by its name; ``tests.model.table`` says what they are."""

    fence: bool = True
    void: bool = True
    together: bool = True
    receipts: bool = True
    fence_first: bool = True
    enough_receipts: bool = True
    acknowledged: bool = True
    position_and_id: bool = True
    receipts_again: bool = True
    nothing_ahead: bool = True
    in_flight_first: bool = True
    in_hand: bool = True
    let_go: bool = True
    from_the_bottom: bool = True
    nothing_below: bool = True
    lock: bool = True
    key_waits: bool = True
    confirm: bool = True
    left_behind: bool = True
    only_earlier: bool = True
    passed_over: bool = True
    reserve: bool = True


AS_DESIGNED = Rules()


@dataclass(frozen=True, slots=True)
class Scope:
    """How much there is. ``batch`` counts rows of a page, ``kept`` receipts.

    ``late``: transactions commit after others that drew their positions later, or roll back. ``forgets``: how many of
    the last settled messages the database may forget when it falls back to a copy; None where it never falls back.
    ``cuts``: connections to the database break. ``refused``: the message that the broker may refuse, 0 for none.
    ``slow_reads``: others may act between the moment that a read shows and its return.
    """

    relays: int = 2
    messages: int = 2
    keys: int = 2
    batch: int = 1
    kept: int = ENOUGH
    late: bool = False
    forgets: int | None = None
    cuts: bool = False
    refused: int = 0
    slow_reads: bool = True

    def key(self, message: int) -> int:
        """The key of a message."""
        return message % self.keys

    def is_held_back(self, message: int) -> bool:
        """Whether a message has the key of the one that may be refused."""
        return self.key(message) == self.key(self.refused)
