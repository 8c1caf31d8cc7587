"""Leases in a table of DynamoDB.

The service has no clock that a condition could ask. So nobody reads the time out of an item: a candidate watches it.
Each renewal changes the item's ``beat``; a lease whose token and beat have not changed for its whole length, by the
candidate's own monotonic clock and since the candidate saw them first, has ended. The owner trusts its lease from
before a renewal was sent, the candidate counts from after it was read, so trust ends first, whatever the clocks of the
machines say. The price: a candidate that has only just begun to watch waits for a whole length.

An item's ``renewed_at`` is its owner's clock. It is shown to people who have not watched, and decides nothing.

Settings: ``look_every_s``, how often a candidate looks (0.4 unless given): each look is one read unit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from fencepost.aws.address import Address, address_of
from fencepost.aws.client import Client
from fencepost.aws.faults import APPLY, ERRORS, code_of, fault_of
from fencepost.errors import AccessDenied, ConfigurationError, FixError, SchemaMissing, Unavailable
from fencepost.message import microseconds
from fencepost.ports import Holder, LeaseOptions, Term
from fencepost.words import as_written

LOOK_EVERY_S = 0.4
"""How often a candidate looks, unless its settings say otherwise."""

_CONDITION = "ConditionalCheckFailedException"
_NAMES = {"#name": "name", "#owner": "owner", "#token": "token"}


@dataclass(frozen=True, slots=True)
class _Record:
    """A lease as it stands in the table. ``owner`` is None where it was released."""

    owner: str | None
    token: int
    beat: int
    ttl_s: float
    acquired_us: int
    renewed_us: int

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Self:
        """The record of an item."""
        owner = item["owner"]["S"] if "owner" in item else None
        whole = {name: int(item[name]["N"]) for name in ("token", "beat", "acquired_at", "renewed_at")}
        ttl_s = float(item["ttl_s"]["N"])
        return cls(owner, whole["token"], whole["beat"], ttl_s, whole["acquired_at"], whole["renewed_at"])


@dataclass(frozen=True, slots=True)
class _Seen:
    """A record, and since when (monotonic seconds) this store has seen it like that."""

    record: _Record
    since_s: float

    def remaining_s(self, now_s: float) -> float:
        return self.since_s + self.record.ttl_s - now_s


class DynamoLeaseStore:
    """A LeaseStore with a client of its own."""

    fences = "nothing by itself"

    def __init__(self, options: LeaseOptions) -> None:
        if options.schema is not None:
            raise ConfigurationError("DynamoDB has no schemas", remedy="leave schema away")
        self._address: Address = address_of(options.url)
        self._table = self._address.table(options.prefix, "lease")
        self._look_every_s = _look_every_s(options.settings)
        self._clock = options.clock
        self._client = Client(self._address, options.timeout_s, options.clock)
        self._seen: dict[str, _Seen] = {}
        self._mine: dict[str, Term] = {}
        self._bells: set[asyncio.Event] = set()
        self._is_open = False

    async def open(self) -> None:
        """See LeaseStore."""
        await self._client.open()
        try:
            await self._check_table()
        except BaseException:
            await self._client.close()
            raise
        self._is_open = True

    async def rehearse(self) -> None:
        """See LeaseStore. A condition that is never met shows that it could be written to the table."""
        impossible = "attribute_exists(#name) AND attribute_not_exists(#name)"
        try:
            await self._change("rehearsal", "SET #token = :one", impossible, {":one": {"N": "1"}})
        except AccessDenied as error:
            raise AccessDenied(f"no lease can be taken or kept: {error.what}", remedy=error.remedy) from error

    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        """A new term, or None; see LeaseStore."""
        seen = await self._look(name)
        now_s = self._clock.monotonic()
        if seen is not None and not (_is_free(seen, now_s) or seen.record.owner == owner):
            return None
        token = 1 if seen is None else seen.record.token + 1
        now = _number(microseconds(self._clock.now()))
        values = {":o": {"S": owner}, ":t": _number(token), ":l": _number(ttl_s), ":now": now, ":zero": _number(0)}
        condition = "attribute_not_exists(#name)"
        if seen is not None:
            condition = "#token = :t0 AND beat = :b0"
            values |= {":t0": _number(seen.record.token), ":b0": _number(seen.record.beat)}
        change = "SET #owner = :o, #token = :t, ttl_s = :l, beat = :zero, acquired_at = :now, renewed_at = :now"
        if not await self._change(name, change, condition, values):
            return None
        term = self._mine[name] = Term(name, owner, token)
        return term

    async def renew(self, term: Term, ttl_s: float) -> bool:
        """Extend the term; see LeaseStore."""
        now = _number(microseconds(self._clock.now()))
        change = "SET ttl_s = :l, renewed_at = :now ADD beat :one"
        values = {":l": _number(ttl_s), ":now": now, ":one": _number(1)}
        renewed = await self._change_term(term, change, values)
        if not renewed:
            self._forget(term)
        return renewed

    async def release(self, term: Term) -> None:
        """End the term; see LeaseStore. Candidates find out when they look."""
        try:
            await self._change_term(term, "REMOVE #owner", {})
        finally:
            self._forget(term)
            self._ring()

    async def wait(self, name: str, timeout_s: float) -> None:
        """Wait until the lease may be free; see LeaseStore. Its owner needs no look: its renewals tell."""
        end_s = self._clock.monotonic() + timeout_s
        while (left_s := end_s - self._clock.monotonic()) > 0:
            if name in self._mine:
                await self._rest(left_s)
                continue
            seen = await self._look(name)
            now_s = self._clock.monotonic()
            if seen is None or _is_free(seen, now_s):
                return
            pause_s = self._look_every_s * (0.75 + 0.5 * self._clock.random())
            await self._rest(min(pause_s, max(seen.remaining_s(now_s), 0.0), left_s))

    async def holder(self, name: str) -> Holder | None:
        """Who has the lease; see LeaseStore."""
        known = self._seen.get(name)
        seen = await self._look(name)
        owner = None if seen is None else seen.record.owner
        if seen is None or owner is None:
            return None
        record, now_us = seen.record, microseconds(self._clock.now())
        remaining_s = seen.remaining_s(self._clock.monotonic())
        if known is None:  # it was not watched: its owner's clock is the only one that could tell
            remaining_s = min(remaining_s, record.ttl_s - (now_us - record.renewed_us) / 1_000_000)
        held_s = max(0.0, (now_us - record.acquired_us) / 1_000_000)
        return Holder(owner=owner, token=record.token, remaining_s=remaining_s, held_s=held_s)

    async def close(self) -> None:
        """Close the client; see LeaseStore."""
        self._is_open = False
        self._seen.clear()
        self._mine.clear()
        await self._client.close()
        self._ring()

    # -- the table -----------------------------------------------------------------------------------------------------

    async def _look(self, name: str) -> _Seen | None:
        """The lease as it is now, and since when it is like that; None where nobody ever had it."""
        self._must_be_open()
        request = {"TableName": self._table, "Key": {"name": {"S": name}}, "ConsistentRead": True}
        item = (await self._client.call("get_item", **request)).get("Item")
        if item is None:
            self._seen.pop(name, None)
            return None
        record, known = _Record.of(item), self._seen.get(name)
        if known is None or (known.record.token, known.record.beat) != (record.token, record.beat):
            known = _Seen(record, self._clock.monotonic())
        self._seen[name] = _Seen(record, known.since_s)
        return self._seen[name]

    async def _change_term(self, term: Term, change: str, values: Mapping[str, Any]) -> bool:
        exact = {":owner": {"S": term.owner}, ":token": _number(term.token)}
        return await self._change(term.name, change, "#owner = :owner AND #token = :token", {**exact, **values})

    async def _change(self, name: str, change: str, condition: str, values: Mapping[str, Any]) -> bool:
        """Change the item of a lease where a condition is met; False where it is not."""
        self._must_be_open()
        used = {alias: full for alias, full in _NAMES.items() if alias in change + condition}
        try:
            await self._client.ask(
                "update_item",
                TableName=self._table,
                Key={"name": {"S": name}},
                UpdateExpression=change,
                ConditionExpression=condition,
                ExpressionAttributeNames=used,
                ExpressionAttributeValues=values,
            )
        except ERRORS as error:
            if code_of(error) == _CONDITION:
                return False
            raise fault_of(error, self._address.place) from error
        return True

    async def _check_table(self) -> None:
        table = (await self._ask_table())["Table"]
        if [(k["AttributeName"], k["KeyType"]) for k in table["KeySchema"]] != [("name", "HASH")]:
            raise FixError(
                f"{self._address.place}: the table {self._table} has another key than name",
                remedy="choose another prefix, or another path in the URL: the table is somebody else's",
            )

    async def _ask_table(self) -> Any:
        try:
            return await self._client.call("describe_table", TableName=self._table)
        except SchemaMissing as error:
            raise SchemaMissing(f"{self._address.place} has no table {self._table}", remedy=APPLY) from error

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _must_be_open(self) -> None:
        if not self._is_open:
            raise Unavailable(f"{self._address.place}: this lease store is closed")

    def _forget(self, term: Term) -> None:
        if self._mine.get(term.name) == term:
            del self._mine[term.name]

    async def _rest(self, seconds: float) -> None:
        """A pause that ends early when something happens to this store."""
        bell = asyncio.Event()
        self._bells.add(bell)
        tasks = [asyncio.ensure_future(bell.wait()), asyncio.ensure_future(self._clock.sleep(seconds))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._bells.discard(bell)
            for task in tasks:
                task.cancel()
        self._must_be_open()

    def _ring(self) -> None:
        for bell in self._bells:
            bell.set()


def _is_free(seen: _Seen, now_s: float) -> bool:
    return seen.record.owner is None or seen.remaining_s(now_s) <= 0


def _number(value: float) -> dict[str, str]:
    return {"N": repr(value)}


def _look_every_s(settings: Mapping[str, object]) -> float:
    unknown = sorted(settings.keys() - {"look_every_s"})
    if unknown:
        raise ConfigurationError(f"leases in DynamoDB have no setting {unknown[0]!r}", remedy="they have look_every_s")
    value = settings.get("look_every_s", LOOK_EVERY_S)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.05 <= value <= 60:
        raise ConfigurationError(
            f"look_every_s = {as_written(value)}", remedy="it is a number of seconds from 0.05 to 60"
        )
    return float(value)


def lease_store(options: LeaseOptions) -> DynamoLeaseStore:
    """The plug-in's factory. Raises ConfigurationError."""
    return DynamoLeaseStore(options)
