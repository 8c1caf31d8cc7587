"""Many conditional writes at once: in transactions of a hundred, each without those whose condition is not met.

A transaction costs twice the write units of single requests, and a thirtieth of the processor: a relay that sends one
request for each message is busy with signing and parsing at some hundreds in a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from fencepost.aws.client import Client
from fencepost.aws.faults import CONDITION, ERRORS, fault_of, reasons
from fencepost.clock import Clock
from fencepost.errors import Contention

T = TypeVar("T")
R = TypeVar("R")

ACTIONS_MAX = 100
"""Writes, or reads, of one transaction."""

AT_ONCE = 4
"""Transactions under way at once."""

_TRIES = 6
_PAUSE_S = 0.02

Action = dict[str, Any]
"""One entry of TransactItems."""


async def in_parts(items: Sequence[T], size: int, work: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> list[R]:
    """What ``work`` makes of the items, ``size`` at a time, several parts at once, in the order of the items."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def part(start: int) -> Sequence[R]:
        async with turn:
            return await work(items[start : start + size])

    parts = [asyncio.ensure_future(part(start)) for start in range(0, len(items), size)]
    try:
        done = await asyncio.gather(*parts)
    finally:
        for one in parts:
            one.cancel()
    return [result for results in done for result in results]


async def write(client: Client, clock: Clock, groups: Sequence[Sequence[Action]]) -> list[bool]:
    """Do each group of writes whole or not at all; which of the groups were done.

    A group is not done where one of its conditions is not met. All groups have the same number of writes.
    """
    if not groups:
        return []

    async def work(part: Sequence[Sequence[Action]]) -> list[bool]:
        return await _write(client, clock, part)

    return await in_parts(groups, ACTIONS_MAX // len(groups[0]), work)


async def _write(client: Client, clock: Clock, groups: Sequence[Sequence[Action]]) -> list[bool]:
    left = list(range(len(groups)))
    tries = 0
    while left:
        failed = await _try(client, [groups[index] for index in left])
        if failed is None:
            break
        if not failed:  # somebody else is at one of the items
            tries += 1
            if tries == _TRIES:
                raise Contention(f"{client.place}: other transactions hold the same messages")
            await clock.sleep(_PAUSE_S * 2**tries * (0.5 + clock.random()))
        left = [index for number, index in enumerate(left) if number not in failed]
    done = set(left)
    return [index in done for index in range(len(groups))]


async def _try(client: Client, groups: Sequence[Sequence[Action]]) -> set[int] | None:
    """One transaction. None where it is done; else the groups whose condition is not met, none where only others were
    in the way.
    """
    try:
        await client.ask("transact_write_items", TransactItems=[action for group in groups for action in group])
    except ClientError as error:
        codes = [str(reason.get("Code")) for reason in reasons(error)]
        failed = {number // len(groups[0]) for number, code in enumerate(codes) if code == CONDITION}
        if not failed and not isinstance(fault_of(error, client.place), Contention):
            raise fault_of(error, client.place) from error
        return failed
    except ERRORS as error:
        raise fault_of(error, client.place) from error
    return None
