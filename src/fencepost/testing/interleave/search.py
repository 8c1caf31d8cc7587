"""All orders: a search through the turns that could have been given, deepest first, each play on fresh data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TypeVar

from fencepost.testing.interleave.history import History, Report
from fencepost.testing.interleave.play import Choice, Play, Rules, Strayed, Stuck, Waits
from fencepost.testing.interleave.turns import Party

W = TypeVar("W")

Fresh = Callable[[], AbstractAsyncContextManager[W]]
Check = Callable[[W, History], Awaitable[None]]

_TRIES = 3  # of a play that strayed: a machine that was busy for a moment looks like a lock


async def interleave(
    left: Party[W],
    right: Party[W],
    *,
    fresh: Fresh[W],
    check: Check[W],
    waits: Waits[W] | None = None,
    expected: tuple[type[Exception], ...] = (),
    alike: bool = False,
    patience_s: float = 0.1,
    deadline_s: float = 10.0,
    orders_max: int = 5_000,
) -> Report:
    """Run every order of the steps of two parties.

    ``fresh`` makes the world of one play and ends what is left of it: also after a play that failed, when parties
    may have left a transaction open. ``check`` is called after each play; what it raises is raised, with the order in
    a note. An error that ends a party and is not one of ``expected`` is raised too.

    Where both parties do the same, and the check asks the same of both, the orders that begin with the right one mirror
    the others: they are left out with ``alike``.

    A step that has not returned after ``patience_s`` is taken to wait for the other party, if ``waits`` says so too:
    give it where the database can be asked, and a patience of a few milliseconds is enough.

    Raises Stuck for a play that lasts longer than ``deadline_s``; Strayed where parties do not do the same each time;
    AssertionError above ``orders_max`` orders.
    """
    rules = Rules(left, right, waits, patience_s, deadline_s)
    histories: list[History] = []
    plan: str | None = ""
    while plan is not None:
        if len(histories) >= orders_max:
            raise AssertionError(f"more than {orders_max} orders: take fewer steps, or say that there may be more")
        history, choices = await _played(rules, fresh, check, expected, plan)
        histories.append(history)
        plan = _following(choices, alike)
    return Report(histories, alike)


async def _played(
    rules: Rules[W], fresh: Fresh[W], check: Check[W], expected: tuple[type[Exception], ...], plan: str
) -> tuple[History, Sequence[Choice]]:
    for _ in range(_TRIES - 1):
        try:
            return await _play(rules, fresh, check, expected, plan)
        except Strayed:
            rules = replace(rules, patience_s=rules.patience_s * 3)
    return await _play(rules, fresh, check, expected, plan)


async def _play(
    rules: Rules[W], fresh: Fresh[W], check: Check[W], expected: tuple[type[Exception], ...], plan: str
) -> tuple[History, Sequence[Choice]]:
    async with fresh() as world:
        play = Play(rules, world, plan)
        history = await play.run()
        try:
            await _judge(rules, world, history, check, expected)
        except Exception as error:
            error.add_note(f"in the order {history}")
            raise
    return history, play.choices


async def _judge(
    rules: Rules[W], world: W, history: History, check: Check[W], expected: tuple[type[Exception], ...]
) -> None:
    for error in history.errors:
        if not isinstance(error, expected):
            raise error
    deadline = asyncio.timeout(rules.deadline_s)
    try:
        async with deadline:
            await check(world, history)
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise Stuck(f"the check did not end within {rules.deadline_s:g} s") from error


def _following(choices: Sequence[Choice], alike: bool) -> str | None:
    """The turns up to the last one that could have been the right party's as well, and that one. None: no such turn."""
    for count in reversed(range(int(alike), len(choices))):
        if choices[count].side == "L" and "R" in choices[count].options:
            return "".join(choice.side for choice in choices[:count]) + "R"
    return None
