"""What is searched, and each rule with what happens without it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.model.handoff import Handoff
from tests.model.lanes import Lanes, LaneScope
from tests.model.rules import Scope
from tests.model.search import STUCK, Found, search
from tests.model.state import Step


@dataclass(frozen=True, slots=True)
class Search:
    """A part of the world in which the model as designed must break nothing. Fewer states than ``states_min`` would
    mean that the model does not do what it says.
    """

    says: str
    model: Handoff | Lanes
    states_min: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a model: what it is, what happens without it, and a small part of the world that shows it."""

    name: str
    says: str
    without: str
    breaks: str
    model: Handoff | Lanes

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")

    def taken_away(self) -> Handoff | Lanes:
        """The model without this rule."""
        return self.model.without(self.name)


@cache
def found(model: Handoff | Lanes, *, stop: bool = False) -> Found[Any, Step]:
    """What a search of the model finds. Searched once in a process."""
    return search(model, stop=stop)


SEARCHES = (
    Search(
        "two relays; transactions that commit late or roll back; sessions that are cut",
        Handoff(Scope(messages=2, late=True, cuts=True)),
        16_000,
    ),
    Search(
        "two relays; three batches under way; the broker keeps two receipts",
        Handoff(Scope(messages=3, kept=2)),
        11_000,
    ),
    Search(
        "two relays; the database falls back and forgets commits and settles; a read is one step",
        Handoff(Scope(messages=2, forgets=2, slow_reads=False)),
        12_000,
    ),
    Search(
        "one relay; pages of one row; late transactions; sessions that are cut",
        Handoff(Scope(relays=1, messages=3, late=True, cuts=True)),
        2_400,
    ),
    Search(
        "one relay; pages of two rows; late transactions; sessions that are cut",
        Handoff(Scope(relays=1, messages=3, batch=2, late=True, cuts=True)),
        2_500,
    ),
    Search(
        "one relay; the database forgets the last settle; the broker keeps three receipts",
        Handoff(Scope(relays=1, messages=4, forgets=1, kept=3)),
        11_000,
    ),
    Search(
        "two relays; the broker refuses a message for a while; pages of two rows of one key",
        Handoff(Scope(messages=2, keys=1, batch=2, refused=1)),
        4_300,
    ),
    Search(
        "one relay; the same with three messages of two keys; sessions that are cut",
        Handoff(Scope(relays=1, messages=3, batch=2, cuts=True, refused=1)),
        1_000,
    ),
)

LONGER_SEARCHES = (
    Search("two relays; three late transactions", Handoff(Scope(messages=3, late=True)), 70_000),
    Search(
        "two relays; pages of two rows; late transactions; sessions that are cut; the database falls back",
        Handoff(Scope(messages=2, batch=2, late=True, cuts=True, forgets=2)),
        170_000,
    ),
    Search(
        "two relays; the broker refuses one of three messages; pages of two rows",
        Handoff(Scope(messages=3, batch=2, refused=1)),
        80_000,
    ),
)

_ONE = Handoff(Scope(messages=1))
_POISON = Handoff(Scope(relays=1, keys=1, refused=1))

RULES = (
    Rule(
        "fence",
        "The broker refuses an earlier owner.",
        "A relay that was paused publishes what its successor publishes too.",
        "repeated",
        _ONE,
    ),
    Rule(
        "together",
        "A batch and its receipt become visible together.",
        "Between the two, a successor finds the batch nowhere.",
        "repeated",
        _ONE,
    ),
    Rule(
        "receipts",
        "A new owner settles what the receipts name before it reads.",
        "What was published and not settled is read and published again.",
        "repeated",
        _ONE,
    ),
    Rule(
        "fence_first",
        "A new owner fences first and reads the receipts afterwards.",
        "A batch that arrives between the two is in no receipt that the new owner knows.",
        "repeated",
        _ONE,
    ),
    Rule(
        "enough_receipts",
        "The broker keeps a receipt for each batch that may not be settled: two, and one for each settled batch that "
        "the database may forget. It keeps 64.",
        "The receipt that is needed has been dropped.",
        "repeated",
        Handoff(Scope(messages=2, kept=2)),
    ),
    Rule(
        "void",
        "After a publish without an answer the handoff is void; only a take-over tells what happened.",
        "A batch whose answer was lost is sent again.",
        "repeated",
        _ONE,
    ),
    Rule(
        "acknowledged",
        "Nothing is settled before the broker has acknowledged it.",
        "The row is gone, and the request may never arrive.",
        "lost",
        _ONE,
    ),
    Rule(
        "nothing_ahead",
        "After a new take-over, or a new session, nothing that was read before is sent.",
        "What was read ahead has been published by somebody else meanwhile.",
        "repeated",
        Handoff(Scope(messages=2)),
    ),
    Rule(
        "receipts_again",
        "A new session begins by settling what the receipts name.",
        "A database that fell back shows rows again that were published.",
        "repeated",
        Handoff(Scope(messages=1, forgets=2)),
    ),
    Rule(
        "in_flight_first",
        "Before a new session begins, the batch that is being published is done.",
        "Its rows are read again, because no known receipt names them yet.",
        "repeated",
        Handoff(Scope(messages=1, cuts=True)),
    ),
    Rule(
        "position_and_id",
        "A settle and a receipt name position and id.",
        "A database that fell back has handed the position out to another message, which is deleted.",
        "lost",
        Handoff(Scope(relays=1, messages=2, forgets=2)),
    ),
    Rule(
        "in_hand",
        "A row that is being published or settled is not chosen again.",
        "It still waits in the database, so the next read finds it.",
        "repeated",
        _ONE,
    ),
    Rule(
        "let_go",
        "A row that was settled while a read ran is not chosen from that read.",
        "The read saw it before it was settled.",
        "repeated",
        _ONE,
    ),
    Rule(
        "from_the_bottom",
        "Every round of reading begins at the lowest position.",
        "A transaction that commits late shows its row below the last one that was read, where nobody looks again.",
        STUCK,
        Handoff(Scope(relays=1, messages=2, late=True)),
    ),
    Rule(
        "nothing_below",
        "A page further up counts only where nothing has appeared below it since the round began.",
        "A row that commits late is passed by, and the next row of its key, further up, overtakes it.",
        "out of order",
        Handoff(Scope(relays=1, messages=3, late=True)),
    ),
    Rule(
        "lock",
        "A writer locks the key before it draws the position.",
        "Two transactions of one key commit in the other order.",
        "out of order",
        Handoff(Scope(relays=1, messages=2, keys=1, late=True)),
    ),
    Rule(
        "key_waits",
        "The key of a refused message waits.",
        "The rest of its batch overtakes it.",
        "out of order",
        Handoff(Scope(relays=1, keys=1, batch=2, refused=1)),
    ),
    Rule(
        "confirm",
        "What was read ahead of that key is not sent.",
        "It overtakes the refused message.",
        "out of order",
        _POISON,
    ),
    Rule(
        "left_behind",
        "What a refusal leaves behind is in no hand any more, at once.",
        "The wait ends while the rest of the batch is published: a new round skips the row, not its key.",
        "out of order",
        Handoff(Scope(relays=1, messages=3, keys=2, batch=2, refused=1)),
    ),
    Rule(
        "only_earlier",
        "What was read after the refusal is sent.",
        "The refused message itself, read again, is not sent, and the next one of its key, further up, overtakes it.",
        "out of order",
        _POISON,
    ),
    Rule(
        "passed_over",
        "A key of which a row was left out is left out until the next round.",
        "The wait ends in the middle of a round, above the row that was left out.",
        "out of order",
        _POISON,
    ),
)

LANE_SEARCHES = (
    Search("two relays; one new lane; two messages", Lanes(LaneScope(messages=2)), 4_000),
    Search("two relays; two new lanes; one message", Lanes(LaneScope(messages=1, new=2)), 2_700),
    Search("two relays; one new lane; the database falls back", Lanes(LaneScope(messages=1, falls_back=True)), 11_000),
)

LONGER_LANE_SEARCHES = (
    Search("two relays; two new lanes; two messages", Lanes(LaneScope(messages=2, new=2)), 14_000),
    Search(
        "two relays; one new lane; two messages; the database falls back",
        Lanes(LaneScope(messages=2, falls_back=True)),
        70_000,
    ),
)

_ONE_LANE = Lanes(LaneScope(messages=1))

LANE_RULES = (
    Rule(
        "seal",
        "Before a new lane begins, its owner seals the old one.",
        "Somebody who knows the old layout only takes the old lane over later, and publishes there.",
        "repeated",
        _ONE_LANE,
    ),
    Rule(
        "under_the_fence",
        "The broker takes a seal from the owner of the old lane only.",
        "An owner who has fenced the sealer does not see the seal, and goes on.",
        "repeated",
        _ONE_LANE,
    ),
    Rule(
        "respect",
        "Nobody publishes on a lane that he finds sealed.",
        "As without a seal.",
        "repeated",
        _ONE_LANE,
    ),
    Rule(
        "receipts_after_seal",
        "The old lane's receipts are read when it is sealed.",
        "What the old lane publishes between the two is in no receipt that the new owner knows.",
        "repeated",
        _ONE_LANE,
    ),
    Rule(
        "settle_old",
        "The owner of a new lane settles what the old lane's receipts name.",
        "What the old lane published and did not settle is published again.",
        "repeated",
        _ONE_LANE,
    ),
    Rule(
        "settle_old_again",
        "A new session on a new lane begins with the old lane's receipts too.",
        "A database that fell back shows rows again that the old lane published.",
        "repeated",
        Lanes(LaneScope(messages=1, falls_back=True)),
    ),
)
