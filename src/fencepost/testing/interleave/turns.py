"""A party's view: steps that wait for their turn. Outside of a party a step is nothing but the call that it makes."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar

from fencepost.flows import Flow, run_async
from fencepost.testing.interleave.history import Outcome, Side, Taken

S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")
W = TypeVar("W")

Party = Callable[[W], Awaitable[object]]
"""What a party does with the world that ``fresh`` made."""


class State(enum.Enum):
    """Where a party stands."""

    RUNNING = enum.auto()
    """In a step, or on its way to the next one."""
    READY = enum.auto()
    """Before a step, until it is its turn."""
    ENDED = enum.auto()


class Log:
    """What happened, in order: kept by both players of a play. ``news`` is set at each change of a state."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        self.told: list[str] = []
        self.returned = 0
        self.changes = 0
        self.news = asyncio.Event()

    def changed(self) -> None:
        """Tell whoever waits for it."""
        self.changes += 1
        self.news.set()


class Player:
    """One party in one play."""

    def __init__(self, side: Side, log: Log) -> None:
        self.side: Side = side
        self.state = State.RUNNING
        self.waiting = False
        self.outcome = Outcome()
        self._log = log
        self._turn = asyncio.Event()
        self.in_flight: Taken | None = None

    async def play(self, party: Party[W], world: W) -> None:
        """Run the party to its end, whatever that is."""
        _player.set(self)
        try:
            self.outcome = Outcome(result=await party(world))
        except Exception as error:  # noqa: BLE001 - how it ended is for the check to judge
            self.outcome = Outcome(error=error)
        finally:
            self._becomes(State.ENDED)

    async def take(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Wait for the turn, then make the call. A step inside a step is a part of it."""
        if self.in_flight is not None:
            return await call()
        if self.state is not State.RUNNING:
            raise RuntimeError(f"{self.side} wants to {name} while it waits for another turn: a party is one task")
        self._turn.clear()
        self._becomes(State.READY)
        await self._turn.wait()
        taken = self.in_flight = Taken(self.side, name)
        self._log.taken.append(taken)
        self._log.told.append(f"{self.side} {name}")
        try:
            return await call()
        except Exception as error:
            taken.error = error
            raise
        finally:
            self.in_flight = None
            self._returned(taken)

    def go(self) -> None:
        """It is its turn."""
        self.state = State.RUNNING
        self._turn.set()

    def waits(self) -> None:
        """Its step was found to wait for the other party."""
        self.waiting = True
        if self.in_flight is not None and not self.in_flight.waited:
            self.in_flight.waited = True
            self._log.told.append(f"({self.side} waits)")

    def _returned(self, taken: Taken) -> None:
        taken.returned = self._log.returned
        self._log.returned += 1
        if taken.waited:
            self._log.told.append(f"({self.side} goes on)")
        if taken.error is not None:
            self._log.told.append(f"({self.side} failed: {type(taken.error).__name__})")

    def _becomes(self, state: State) -> None:
        self.state = state
        self._log.changed()


_player: ContextVar[Player | None] = ContextVar("fencepost_player", default=None)


async def step(name: str, call: Callable[[], Awaitable[T]]) -> T:
    """Make a call when it is this party's turn; outside of a party at once. The name is for people and for checks.

    A driver may do this for all who use it. Whatever can wait for the other party is done in a step. Raises
    RuntimeError where a party takes two steps at once.
    """
    player = _player.get()
    return await (call() if player is None else player.take(name, call))


def steps(*calls: tuple[str, Callable[[W], Awaitable[object]]]) -> Party[W]:
    """A party that makes these calls, (name, call) each, in this order. An error ends it.

    Returns a list of what they returned. The world must end what such a party left open.
    """

    async def party(world: W) -> list[object]:
        results = []
        for name, call in calls:
            results.append(await step(name, lambda call=call: call(world)))  # type: ignore[misc]
        return results

    return party


async def run_in_steps(
    flow: Flow[S, R, T], execute: Callable[[S], Awaitable[R]], *, name: Callable[[S], str] = str
) -> T:
    """Drive a flow as ``fencepost.flows.run_async`` does, each of its statements a step. ``name`` names one."""
    return await run_async(flow, lambda statement: step(name(statement), lambda: execute(statement)))
