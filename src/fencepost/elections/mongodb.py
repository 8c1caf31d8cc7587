"""Leases in a MongoDB: one document for each, changed where it is as it was read. The server's clock judges.

Every server that takes single-document writes will do; no transaction is needed. A term is given by a write that a
majority has, so no other primary can give it too. A standby looks a few times a second: what it looks at is small.

There are no settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pymongo.errors import DuplicateKeyError

from fencepost.errors import AccessDenied, ConfigurationError, Unavailable
from fencepost.mongo.address import parse
from fencepost.mongo.client import Access, Client, Collection, leave, now_us, reach
from fencepost.mongo.faults import ERRORS
from fencepost.ports import Holder, LeaseOptions, Term

T = TypeVar("T")

_LOOK_EVERY_S = (0.3, 0.4)


class MongoLeaseStore:
    """A LeaseStore with a client of its own."""

    fences = "nothing by itself"

    def __init__(self, options: LeaseOptions) -> None:
        if options.settings:
            name = min(options.settings)
            raise ConfigurationError(f"leases in MongoDB have no setting {name!r}", remedy="leave it out")
        self._access = Access(parse(options.url, options.schema), options.timeout_s)
        self._collection_name = f"{options.prefix}lease"
        self._clock = options.clock
        self._client: Client | None = None

    async def open(self) -> None:
        """See LeaseStore."""
        if self._client is None:
            self._client = self._access.client()
        await self._call(lambda leases: reach(leases.database.client))

    async def rehearse(self) -> None:
        """See LeaseStore. Nothing is changed, but it is refused where the rights are lacking."""
        try:
            await self._call(lambda leases: leases.find_one({"_id": ""}))
            await self._call(lambda leases: leases.update_one({"_id": ""}, {"$set": {"owner": None}}))
        except AccessDenied as error:
            raise AccessDenied(f"no lease can be taken or kept: {error.what}", remedy=error.remedy) from error

    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        """See LeaseStore."""
        return await self._call(lambda leases: _acquire(leases, name, owner, ttl_s))

    async def renew(self, term: Term, ttl_s: float) -> bool:
        """See LeaseStore."""

        async def work(leases: Collection) -> bool:
            ends_us = await now_us(leases.database.client) + _us(ttl_s)
            return (await leases.update_one(_exact(term), {"$set": {"expires_us": ends_us}})).matched_count == 1

        return await self._call(work)

    async def release(self, term: Term) -> None:
        """See LeaseStore."""
        await self._call(lambda leases: leases.update_one(_exact(term), {"$set": {"owner": None, "expires_us": 0}}))

    async def wait(self, name: str, timeout_s: float) -> None:
        """See LeaseStore. The owner is woken when the lease has another token."""
        until_s = self._clock.monotonic() + timeout_s
        first = found = await self.holder(name)
        while found is not None and first is not None and found.token == first.token and found.remaining_s > 0:
            left_s = until_s - self._clock.monotonic()
            if left_s <= 0 or self._client is None:
                return
            low_s, high_s = _LOOK_EVERY_S
            pause_s = low_s + (high_s - low_s) * self._clock.random()
            await self._clock.sleep(min(pause_s, found.remaining_s, left_s))
            found = await self.holder(name)

    async def holder(self, name: str) -> Holder | None:
        """See LeaseStore."""

        async def work(leases: Collection) -> Holder | None:
            found = await leases.find_one({"_id": name})
            if found is None or found["owner"] is None:
                return None
            time_us = await now_us(leases.database.client)
            return Holder(
                owner=found["owner"],
                token=found["token"],
                remaining_s=(found["expires_us"] - time_us) / 1e6,
                held_s=max(0.0, (time_us - found["acquired_us"]) / 1e6),
            )

        return await self._call(work)

    async def close(self) -> None:
        """See LeaseStore."""
        client, self._client = self._client, None
        if client is not None:
            await leave(client)

    async def _call(self, work: Callable[[Collection], Awaitable[T]]) -> T:
        """One call, in time. A session is nothing here: the next call may go to another server."""
        client = self._client
        if client is None:
            raise Unavailable(f"{self._access.place}: this lease store was closed")
        leases = self._access.database(client)[self._collection_name]
        try:
            async with asyncio.timeout(self._access.timeout_s):
                return await work(leases)
        except ERRORS as error:
            raise self._access.unreachable(error) from error


async def _acquire(leases: Collection, name: str, owner: str, ttl_s: float) -> Term | None:
    """The time is read before the document, so what has ended by it has ended."""
    time_us = await now_us(leases.database.client)
    tenure = {"owner": owner, "acquired_us": time_us, "expires_us": time_us + _us(ttl_s)}
    found = await leases.find_one({"_id": name})
    if found is None:
        try:
            await leases.insert_one({"_id": name, "token": 1, **tenure})
        except DuplicateKeyError:
            return None  # somebody else was quicker
        return Term(name, owner, 1)
    if found["owner"] not in {None, owner} and found["expires_us"] > time_us:
        return None
    given = await leases.update_one(found, {"$set": {"token": found["token"] + 1, **tenure}})
    return Term(name, owner, found["token"] + 1) if given.matched_count == 1 else None


def _exact(term: Term) -> dict[str, Any]:
    return {"_id": term.name, "owner": term.owner, "token": term.token}


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)


def lease_store(options: LeaseOptions) -> MongoLeaseStore:
    """The plug-in's factory. Raises ConfigurationError."""
    return MongoLeaseStore(options)
