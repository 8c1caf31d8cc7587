"""Reading several partitions as one outbox, lowest position first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from fencepost.aws.client import Client

Item = dict[str, Any]

_PAGE_MAX = 1_000
_SHARES = 4  # how many parts of its fair share a partition is asked for, once more has to be read of it


class Partition:
    """The items of one partition, in order, as far as they have been read. ``last`` is where the next page begins.

    ``wanted`` says of a sort key whether its item belongs to the answer; about one in ``diluted`` does.
    """

    def __init__(self, request: dict[str, Any], wanted: Callable[[str], bool], diluted: int = 1) -> None:
        self.items: list[Item] = []
        self.last: str | None = None
        self.is_open = True
        self._request, self._wanted, self._diluted = request, wanted, diluted
        self._start: Any = None

    async def more(self, client: Client, limit: int) -> None:
        """Read the next page, of up to ``limit`` items."""
        start = {} if self._start is None else {"ExclusiveStartKey": self._start}
        answer = await client.call("query", **self._request, **start, Limit=min(limit * self._diluted, _PAGE_MAX))
        self.items += [item for item in answer["Items"] if self._wanted(item["sk"]["S"])]
        self._start = answer.get("LastEvaluatedKey")
        self.is_open = self._start is not None
        if self.is_open:
            self.last = self._start["sk"]["S"]

    def may_have_below(self, bound: str | None) -> bool:
        """Whether there may be unread items up to ``bound`` (None: anywhere)."""
        return self.is_open and (bound is None or self.last is None or self.last < bound)


async def lowest(client: Client, partitions: Sequence[Partition], limit: int) -> list[Item]:
    """The ``limit`` items with the lowest sort keys of all partitions; fewer where there are no more."""
    while True:
        found = list(islice(merge(*(p.items for p in partitions), key=_position), limit))
        bound = _position(found[-1]) if len(found) == limit else None
        unread = [p for p in partitions if p.may_have_below(bound)]
        if not unread:
            return found
        lacking, least = (limit - len(found)) // len(unread), limit // len(partitions) // _SHARES
        share = max(lacking + lacking // _SHARES, least) + 1
        await asyncio.gather(*(p.more(client, share) for p in unread))


def _position(item: Item) -> str:
    position: str = item["sk"]["S"]
    return position
