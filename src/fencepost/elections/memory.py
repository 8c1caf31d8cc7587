"""Leases in this process's memory: for tests and simulations. Nothing survives the process.

``memory://NAME`` names a place that everyone in the process shares; a store is one session with it. The place has plain
methods for trouble (expire or steal a lease, and those of its gate), and a store can be cut off. One event loop at a
time.

Settings: ``session_evidence`` is "auto" (the default: a store that was closed is known to be gone) or "off".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost import gate
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.errors import ConfigurationError, DeadlineExceeded, Unavailable
from fencepost.ports import Holder, LeaseOptions, Term
from fencepost.words import as_written

_GRAIN_S = 0.001  # no wait is shorter: a difference of two times may be too small to be added to either of them


@dataclass(slots=True)
class _Session:
    """A store from open to close."""

    ended: bool = False


@dataclass(slots=True)
class _Lease:
    """``session`` is the owner's where it shows that it is there, None where nothing can be said."""

    token: int = 0
    owner: str | None = None
    acquired_s: float = 0.0
    expires_s: float = 0.0
    session: _Session | None = None

    def remaining_s(self, now_s: float) -> float:
        return self.expires_s - now_s

    def is_free(self, now_s: float) -> bool:
        return self.owner is None or self.remaining_s(now_s) <= 0

    @property
    def gone(self) -> bool:
        return self.session is not None and self.session.ended


class MemoryLeases:
    """The shared place. What a test may look at and do to it. ``gate`` pauses it, makes calls fail or loses answers."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.url = url
        self.clock = clock
        self.gate = gate.Gate(url)
        self._leases: dict[str, _Lease] = {}
        self._bells = gate.Bells()

    def expire(self, name: str) -> None:
        """End a lease now, as if its time had passed. Its owner is not told."""
        self._lease(name).expires_s = self.clock.monotonic()
        gate.ring(self._bells)

    def steal(self, name: str, owner: str, ttl_s: float) -> Term:
        """Give a lease to somebody else, whoever has it. Its owner is not told: its next renewal is."""
        return self._give(name, owner, ttl_s, None, early=False)

    def holder(self, name: str) -> Holder | None:
        """Who has a lease."""
        lease, now_s = self._lease(name), self.clock.monotonic()
        if lease.owner is None:
            return None
        remaining_s, held_s = lease.remaining_s(now_s), now_s - lease.acquired_s
        return Holder(owner=lease.owner, token=lease.token, remaining_s=remaining_s, held_s=held_s)

    def _lease(self, name: str) -> _Lease:
        return self._leases.setdefault(name, _Lease())

    def _current(self, term: Term) -> _Lease | None:
        lease = self._lease(term.name)
        return lease if (lease.owner, lease.token) == (term.owner, term.token) else None

    def _acquire(self, name: str, owner: str, ttl_s: float, session: _Session | None) -> Term | None:
        lease = self._lease(name)
        free = lease.is_free(self.clock.monotonic()) or lease.owner == owner
        return self._give(name, owner, ttl_s, session, early=not free) if free or lease.gone else None

    def _give(self, name: str, owner: str, ttl_s: float, session: _Session | None, *, early: bool) -> Term:
        now_s = self.clock.monotonic()
        token = self._lease(name).token + 1
        self._leases[name] = _Lease(token, owner, now_s, now_s + ttl_s, session)
        gate.ring(self._bells)
        return Term(name, owner, token, early)

    def _release(self, term: Term) -> None:
        lease = self._current(term)
        if lease is not None:
            lease.owner, lease.expires_s, lease.session = None, self.clock.monotonic(), None
            gate.ring(self._bells)


class MemoryLeaseStore:
    """A LeaseStore: one session with the shared place."""

    fences = "nothing outside this process"

    def __init__(self, leases: MemoryLeases, options: LeaseOptions) -> None:
        self._leases = leases
        self._clock = options.clock
        self._timeout_s = options.timeout_s
        self._shows_itself = _wants_evidence(options.settings)
        self._is_cut_off = False
        self._bells = gate.Bells()
        self._session_now = _Session()

    def cut_off(self) -> None:
        """Let no call through any more, as where a network is cut in the middle: the session is not seen to end."""
        self._is_cut_off = True

    def heal(self) -> None:
        """Let calls through again."""
        self._is_cut_off = False
        gate.ring(self._bells)

    async def open(self) -> None:
        """See LeaseStore. A store that was closed begins a new session."""
        if self._session_now.ended:
            self._session_now = _Session()
        await self._enter("open")

    async def rehearse(self) -> None:
        """See LeaseStore. Everybody may take leases here."""
        await self._enter("rehearse")

    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        """See LeaseStore."""
        await self._enter("acquire")
        term = self._leases._acquire(name, owner, ttl_s, self._session())
        self._leases.gate.leave("acquire")
        return term

    async def renew(self, term: Term, ttl_s: float) -> bool:
        """See LeaseStore."""
        await self._enter("renew")
        lease = self._leases._current(term)
        if lease is not None:
            lease.expires_s, lease.session = self._leases.clock.monotonic() + ttl_s, self._session()
        self._leases.gate.leave("renew")
        return lease is not None

    async def release(self, term: Term) -> None:
        """See LeaseStore."""
        await self._enter("release")
        self._leases._release(term)
        self._leases.gate.leave("release")

    async def wait(self, name: str, timeout_s: float) -> None:
        """See LeaseStore. The owner of the lease is woken when it is given to somebody else."""
        await self._enter("wait")
        until_s = self._clock.monotonic() + timeout_s
        token = self._leases._lease(name).token
        while (left_s := until_s - self._clock.monotonic()) > 0:
            lease, now_s = self._leases._lease(name), self._leases.clock.monotonic()
            if lease.is_free(now_s) or lease.gone or lease.token != token:
                return
            pause_s = max(min(lease.remaining_s(now_s), left_s), _GRAIN_S)
            await gate.wait(self._clock, pause_s, self._leases._bells)

    async def holder(self, name: str) -> Holder | None:
        """See LeaseStore."""
        await self._enter("holder")
        return self._leases.holder(name)

    async def close(self) -> None:
        """See LeaseStore. To candidates it looks as if this process had been killed."""
        self.end()

    def end(self) -> None:
        """The session with the place is over."""
        self._session_now.ended = True
        gate.ring(self._bells)
        gate.ring(self._leases._bells)

    def _session(self) -> _Session | None:
        return self._session_now if self._shows_itself else None

    async def _enter(self, call: str) -> None:
        if self._session_now.ended:
            raise Unavailable(f"this session with {self._leases.url} was closed")
        if self._is_cut_off and not await gate.wait(self._clock, self._timeout_s, self._bells):
            raise DeadlineExceeded(f"{self._leases.url} did not answer {call} within {self._timeout_s:g} s")
        await self._leases.gate.enter(call, self._clock, self._timeout_s, self._bells)


_PLACES: dict[str, MemoryLeases] = {}


def leases(url: str, *, clock: Clock = SYSTEM_CLOCK) -> MemoryLeases:
    """The place of this URL, which everyone in the process shares. ``clock`` counts for the first who asks.

    Raises ConfigurationError where the URL is not memory://NAME.
    """
    scheme, _, name = url.partition("://")
    if scheme != "memory" or not name:
        raise ConfigurationError(f"{url!r} is not the URL of leases in memory", remedy="write memory://NAME")
    return _PLACES.setdefault(url, MemoryLeases(url, clock))


def forget(url: str) -> None:
    """Drop a shared place, whatever it holds."""
    _PLACES.pop(url, None)


def lease_store(options: LeaseOptions) -> MemoryLeaseStore:
    """The plug-in's factory."""
    return MemoryLeaseStore(leases(options.url, clock=options.clock), options)


def _wants_evidence(settings: Mapping[str, object]) -> bool:
    unknown = sorted(settings.keys() - {"session_evidence"})
    if unknown:
        raise ConfigurationError(
            f"leases in memory have no setting {unknown[0]!r}", remedy="they have session_evidence"
        )
    value = settings.get("session_evidence", "auto")
    if value not in {"auto", "off"}:
        raise ConfigurationError(f"session_evidence = {as_written(value)}", remedy='write "auto" or "off"')
    return value == "auto"
