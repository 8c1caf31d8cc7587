"""Interleavings: two parties, every order of their steps, on a real database.

    async def left(world: World) -> None:
        await step("begin", world.left.begin)
        await step("add", lambda: world.left.add("A"))
        await step("commit", world.left.commit)

    report = await interleave(left, right, fresh=fresh, check=check)
    assert report.unseen(3, 3) == []

A party is a coroutine. What it does inside ``step`` waits for its turn; what it does between two steps belongs to the
one before, and must not wait for the other party. Every order that the database lets happen is run once, each on fresh
data, and checked. A step that does not return because the other party holds a lock is left in flight, and the other
one goes on meanwhile.

``play`` runs one order, ``search`` finds the orders, ``turns`` is what parties see, ``history`` what is left of it all.
"""

from fencepost.testing.interleave.history import History, Outcome, Report, Side, Taken
from fencepost.testing.interleave.play import Strayed, Stuck, Waits
from fencepost.testing.interleave.search import Check, Fresh, interleave
from fencepost.testing.interleave.turns import Party, run_in_steps, step, steps

__all__ = [
    "Check",
    "Fresh",
    "History",
    "Outcome",
    "Party",
    "Report",
    "Side",
    "Strayed",
    "Stuck",
    "Taken",
    "Waits",
    "interleave",
    "run_in_steps",
    "step",
    "steps",
]
