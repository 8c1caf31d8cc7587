"""Leadership by lease: campaign for a name, keep the term, and know in time when it is over.

Who leads trusts his own monotonic clock, not the store: from the moment when the last successful attempt *started* he
may work for the length of the lease less a margin. So his trust ends before the store gives the lease to anybody else,
whatever happened to him or to the network meanwhile.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.errors import ConfigurationError, DeadlineExceeded, FencepostError, FixError, RetryError
from fencepost.events import (
    CircuitClosed,
    CircuitOpened,
    LeaseAcquired,
    LeaseEnded,
    Observer,
    RelayFailed,
    StandingBy,
    ignore,
)
from fencepost.ports import LeaseStore, Term

NAME_CHARACTERS_MAX = 255
"""The longest name of a lease or an owner."""

_WAIT_S = 60.0  # the store's wait returns when there is news: without any, a candidate asks about once a minute
_BREATH_S = 0.05  # between two attempts of a candidate whose wait returns at once
_RENEWAL_GAP_S = 0.1  # between two renewals whose wait returned early
_GRAIN_S = 0.001  # no sleep is shorter: a difference of two times may be too small to be added to either of them
_RETRY_S = (0.1, 2.0)  # back-off: the first delay and the longest


@dataclass(frozen=True, slots=True)
class _Parts:
    store: LeaseStore
    ttl_s: float
    margin_s: float
    clock: Clock
    observer: Observer


class Tenure:
    """One term in this process's hands, kept by a task of its own. Made by ``Leadership.campaign``.

    ``lost`` is set when the term is over, however it came: the work must stop. ``failure`` is the error for which it
    ended, where it was one. As an async context manager it releases the lease at the end.
    """

    def __init__(self, parts: _Parts, term: Term, started_s: float) -> None:
        self.term = term
        self.lost = asyncio.Event()
        self.failure: Exception | None = None
        self._parts, self._clock = parts, parts.clock
        self._ended = False
        self._void = False  # the store said so: there is nothing to release
        self._released = False
        self._trust(started_s)
        self._tasks = [asyncio.ensure_future(work) for work in (self._keep(), self._watch())]

    def trusted_for_s(self) -> float:
        """Seconds for which nobody else can have the lease; at most 0 where nothing may be begun any more."""
        return self._trusted_until_s - self._clock.monotonic()

    async def release(self) -> None:
        """Give the lease up, so that a standby has it at once. Call it when the work has ended, never before.

        Never raises: where the store cannot be told, the lease ends by itself. A second call does nothing.
        """
        if self._released:
            return
        self._released = True
        self._distrust()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self._void:
            await self._give_back()
        self._end("released")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()

    async def _give_back(self) -> None:
        try:
            await self._parts.store.release(self.term)
        except FencepostError as error:
            self.failure = self.failure or error
        except Exception as error:  # noqa: BLE001 - the work is over and the lease will be: say it, do not raise it
            self._report(error)

    # -- keeping it ----------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Renew until the term is over. An error that nobody expected ends it too, and is told."""
        try:
            while not self.lost.is_set():
                await self._until_due()
                await self._renew()
        except FixError as error:
            self.failure = error
            self._lose("lost")
        except Exception as error:  # noqa: BLE001 - never a silent dead task
            self._report(error)
            self._lose("lost")

    async def _until_due(self) -> None:
        """A third of the lease since the last renewal, or earlier where the store says that the term may be lost."""
        with suppress(RetryError):
            await self._parts.store.wait(
                self.term.name, self._renewed_s + self._parts.ttl_s / 3 - self._clock.monotonic()
            )
        gap_s = self._renewed_s + min(_RENEWAL_GAP_S, self._parts.ttl_s / 3) - self._clock.monotonic()
        if gap_s > 0:
            await self._clock.sleep(gap_s)

    async def _renew(self) -> None:
        started_s = self._clock.monotonic()
        if self.trusted_for_s() <= 0:  # this process was paused: too late, whatever the store may say
            self._lose("trust ended")
            return
        try:
            alive = await self._parts.store.renew(self.term, self._parts.ttl_s)
        except RetryError as error:
            self.failure = error
            await self._clock.sleep(_RETRY_S[0] * (0.5 + self._clock.random()))
        else:
            self._renewed(alive, started_s)

    def _renewed(self, alive: bool, started_s: float) -> None:
        if not alive:
            self._void = True
            self._lose("lost")
        elif not self.lost.is_set():
            self.failure = None
            self._trust(started_s)

    async def _watch(self) -> None:
        while (left_s := self.trusted_for_s()) > 0:
            await self._clock.sleep(max(left_s, _GRAIN_S))
        self._lose("trust ended")

    def _trust(self, started_s: float) -> None:
        self._renewed_s = started_s
        self._trusted_until_s = started_s + self._parts.ttl_s - self._parts.margin_s

    def _distrust(self) -> None:
        self._trusted_until_s = min(self._trusted_until_s, self._clock.monotonic())

    # -- the end -------------------------------------------------------------------------------------------------------

    def _lose(self, reason: str) -> None:
        self._distrust()
        self.lost.set()
        self._end(reason)

    def _end(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            term = self.term
            self._parts.observer(LeaseEnded(lane=term.name, owner=term.owner, token=term.token, reason=reason))

    def _report(self, error: Exception) -> None:
        self.failure = error
        cause = f"{type(error).__name__}: {error}"
        self._parts.observer(RelayFailed(lane=self.term.name, cause=cause, error=error))


class Leadership:
    """Campaigns for one lease. ``owner`` names this process; no other process may have the same name.

    ttl_s: how long the lease lasts without a renewal. margin_s: how much earlier trust ends (a tenth of it, unless
    given): it must cover what two clocks may differ by in that time, and how long it takes to stop.
    """

    def __init__(
        self,
        store: LeaseStore,
        name: str,
        owner: str,
        ttl_s: float = 5.0,
        *,
        margin_s: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        observer: Observer = ignore,
    ) -> None:
        margin_s = ttl_s / 10 if margin_s is None else margin_s
        _check(name, owner, ttl_s, margin_s)
        self._parts = _Parts(store, ttl_s, margin_s, clock, observer)
        self._name, self._owner = name, owner
        self._stood_by_for: tuple[str | None] | None = None
        self._failures = 0
        self._failing_since_s = 0.0

    async def campaign(self) -> Tenure:
        """Wait until the lease is ours. Faults that pass are waited for.

        Raises FixError for what a person must change.
        """
        while True:
            try:
                tenure = await self._attempt()
                if tenure is not None:
                    return tenure
                await self._stand_by()
            except RetryError as error:
                await self._parts.clock.sleep(self._failed(error))

    async def _attempt(self) -> Tenure | None:
        parts = self._parts
        started_s = parts.clock.monotonic()
        term = await parts.store.acquire(self._name, self._owner, parts.ttl_s)
        if term is None:
            return None
        took_s = parts.clock.monotonic() - started_s
        if took_s >= parts.ttl_s - parts.margin_s:
            await parts.store.release(term)
            raise DeadlineExceeded(f"acquiring {self._name} took {took_s:.1f} s of a lease of {parts.ttl_s:g} s")
        self._succeeded()
        self._stood_by_for = None
        parts.observer(LeaseAcquired(lane=self._name, owner=self._owner, token=term.token, early=term.early))
        return Tenure(parts, term, started_s)

    async def _stand_by(self) -> None:
        """Wait until it is worth another attempt; say whom we stand by for, once each."""
        parts = self._parts
        holder = await parts.store.holder(self._name)
        self._succeeded()
        owner = None if holder is None else holder.owner
        if self._stood_by_for != (owner,):
            self._stood_by_for = (owner,)
            parts.observer(StandingBy(lane=self._name, owner=owner))
        started_s = parts.clock.monotonic()
        await parts.store.wait(self._name, _WAIT_S)
        if parts.clock.monotonic() - started_s < _BREATH_S:
            await parts.clock.sleep(_BREATH_S * parts.clock.random())

    def _failed(self, error: RetryError) -> float:
        """Tell of a failed attempt; seconds until the next one."""
        clock = self._parts.clock
        if not self._failures:
            self._failing_since_s = clock.monotonic()
        self._failures += 1
        first_s, longest_s = _RETRY_S
        delay_s = min(longest_s, first_s * 2.0 ** min(self._failures - 1, 16)) * (0.5 + 0.5 * clock.random())
        failures, cause = self._failures, str(error)
        self._parts.observer(CircuitOpened(lane=self._name, cause=cause, failures=failures, delay_s=delay_s))
        return delay_s

    def _succeeded(self) -> None:
        if self._failures:
            self._failures = 0
            open_s = self._parts.clock.monotonic() - self._failing_since_s
            self._parts.observer(CircuitClosed(lane=self._name, open_s=open_s))


def _check(name: str, owner: str, ttl_s: float, margin_s: float) -> None:
    for what, text in (("the name of a lease", name), ("the owner of a lease", owner)):
        if not 0 < len(text) <= NAME_CHARACTERS_MAX:
            raise ConfigurationError(f"{what} is {text!r}", remedy=f"1 to {NAME_CHARACTERS_MAX} characters")
    if not 0 <= margin_s < ttl_s / 2:
        raise ConfigurationError(
            f"a lease of {ttl_s:g} s with a margin of {margin_s:g} s",
            remedy="the margin must be below half of the lease",
        )
