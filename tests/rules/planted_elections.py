"""Deliberately wrong lease stores: each is the one in memory, weakened in one place."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from fencepost.elections import memory
from fencepost.elections.memory import MemoryLeaseStore
from fencepost.ports import Holder, LeaseOptions, Term


class Unchanged(MemoryLeaseStore):
    """Nothing is wrong with this one."""


class TokensStandStill(MemoryLeaseStore):
    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        before = self._leases._lease(name).token
        term = await super().acquire(name, owner, ttl_s)
        if term is None or before == 0:
            return term
        self._leases._lease(name).token = before
        return replace(term, token=before)


class RenewIgnoresTheToken(MemoryLeaseStore):
    async def renew(self, term: Term, ttl_s: float) -> bool:
        return await super().renew(replace(term, token=self._leases._lease(term.name).token), ttl_s)


class RenewIgnoresTheOwner(MemoryLeaseStore):
    async def renew(self, term: Term, ttl_s: float) -> bool:
        return await super().renew(replace(term, owner=self._leases._lease(term.name).owner or ""), ttl_s)


class ReleaseIgnoresTheToken(MemoryLeaseStore):
    async def release(self, term: Term) -> None:
        lease = self._leases._lease(term.name)
        await super().release(replace(term, token=lease.token, owner=lease.owner or ""))


class ChecksThenWrites(MemoryLeaseStore):
    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        holder = await self.holder(name)
        await asyncio.sleep(0.001)
        if holder is not None and holder.remaining_s > 0 and holder.owner != owner:
            return None
        return self._leases._give(name, owner, ttl_s, None, early=False)


class NeverExpires(MemoryLeaseStore):
    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        return await super().acquire(name, owner, 1_000.0)


class ExpiresEarly(MemoryLeaseStore):
    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        return await super().acquire(name, owner, ttl_s / 10)


class ReleaseWakesNobody(MemoryLeaseStore):
    async def wait(self, name: str, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)


class NeverWaits(MemoryLeaseStore):
    async def wait(self, name: str, timeout_s: float) -> None:
        await asyncio.sleep(0)


class ShowsWhoLeft(MemoryLeaseStore):
    async def holder(self, name: str) -> Holder | None:
        holder = await super().holder(name)
        return holder or Holder(owner="nobody", token=0, remaining_s=0.0, held_s=0.0)


class TheOwnersClockJudges(MemoryLeaseStore):
    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        lease = self._leases._lease(name)
        shift_s = (self._clock.now() - self._leases.clock.now()).total_seconds()
        if lease.owner is not None and lease.expires_s < self._leases.clock.monotonic() + shift_s:
            self._leases.expire(name)
        return await super().acquire(name, owner, ttl_s)


def lease_store_of(kind: type[MemoryLeaseStore]) -> object:
    """The factory of a plug-in with these stores."""

    def lease_store(options: LeaseOptions) -> MemoryLeaseStore:
        return kind(memory.leases(options.url, clock=options.clock), options)

    return lease_store
