"""One play: two parties step by step, in a given order as far as it goes, then left before right."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fencepost.testing.interleave.history import History, Side, Taken
from fencepost.testing.interleave.turns import Log, Party, Player, State

W = TypeVar("W")

Waits = Callable[[W, Taken], Awaitable[bool]]
"""Asked when a step does not return: True where it waits for something that the other party holds."""

_GOODBYE_S = 5.0  # how long a party that is cancelled may take


class Stuck(AssertionError):
    """A play did not come to its end in time."""


class Strayed(AssertionError):
    """The same turns led elsewhere than before."""


@dataclass(frozen=True, slots=True)
class Rules(Generic[W]):
    """The two parties, and how long to wait for what. ``waits`` is None where nobody can be asked."""

    left: Party[W]
    right: Party[W]
    waits: Waits[W] | None
    patience_s: float
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Choice:
    """Whose turn it was, and whose it could have been."""

    side: Side
    options: str


class Play(Generic[W]):
    """One run of two parties on one world. ``choices`` are the turns that were given, one for each step."""

    def __init__(self, rules: Rules[W], world: W, plan: str) -> None:
        self._rules, self._world, self._plan = rules, world, plan
        self._log = Log()
        self._players = (Player("L", self._log), Player("R", self._log))
        self._cut: list[str] = []
        self.choices: list[Choice] = []

    async def run(self) -> History:
        """To the end of both parties. Raises Stuck, Strayed."""
        parties = (self._rules.left, self._rules.right)
        pairs = zip(self._players, parties, strict=True)
        tasks = [asyncio.ensure_future(player.play(party, self._world)) for player, party in pairs]
        deadline = asyncio.timeout(self._rules.deadline_s)
        try:
            async with deadline:
                while not all(player.state is State.ENDED for player in self._players):
                    await self._until_still()
                    await self._next_turn()
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise Stuck(f"no end within {self._rules.deadline_s:g} s: {self._told()}") from error
        finally:
            await _leave(tasks)
        left, right = (player.outcome for player in self._players)
        return History(self._log.taken, left, right, self._cut, self._told())

    def _told(self) -> str:
        return ", ".join(self._log.told)

    # -- whose turn it is ----------------------------------------------------------------------------------------------

    async def _next_turn(self) -> None:
        ready = [player for player in self._players if player.state is State.READY]
        if ready:
            self._note_cuts()
            self._chosen(ready).go()
        elif any(player.state is State.RUNNING for player in self._players):
            await self._news(None)  # each waits for the other: the database has to end that

    def _note_cuts(self) -> None:
        before = "".join(choice.side for choice in self.choices)
        self._cut.extend(before + player.side for player in self._players if player.state is State.RUNNING)

    def _chosen(self, ready: Sequence[Player]) -> Player:
        options = "".join(player.side for player in ready)
        count = len(self.choices)
        wanted = self._plan[count] if count < len(self._plan) else options[0]
        for player in ready:
            if player.side == wanted:
                self.choices.append(Choice(player.side, options))
                return player
        raise Strayed(f"{wanted} has no step after {self._told()}, where it had one before")

    # -- until nothing moves -------------------------------------------------------------------------------------------

    async def _until_still(self) -> None:
        """Until each party is before a step, has ended, or waits for the other."""
        while True:
            known = [player for player in self._players if player.waiting]
            for player in self._players:
                if player not in known:
                    await self._until_it_stands(player)
            changes = self._log.changes
            for player in known:  # only now: what the other one did last may have freed it
                await self._until_it_stands(player)
            if changes == self._log.changes:
                return

    async def _until_it_stands(self, player: Player) -> None:
        """Until it is before a step, has ended, or is found to wait: who was found to is asked about at once."""
        patient = not (player.waiting and self._rules.waits)
        while player.state is State.RUNNING:
            moved = patient and await self._news(self._rules.patience_s)
            if not moved and await self._waits(player):
                player.waits()
                return
            patient = True
        player.waiting = False

    async def _waits(self, player: Player) -> bool:
        waits, taken = self._rules.waits, player.in_flight
        if taken is None:
            return False  # between two steps
        return (waits is None or await waits(self._world, taken)) and player.in_flight is taken

    async def _news(self, timeout_s: float | None) -> bool:
        """Wait for a change of any state; False where there was none in time."""
        self._log.news.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._log.news.wait()
        except TimeoutError:
            return False
        return True


async def _leave(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=_GOODBYE_S)
