"""Nothing of a key before what the same key committed earlier, although a query is no snapshot.

The service promises that a query returns what is committed, not that it returns all of it as of one moment: a
transaction that commits while the query runs may be seen in part. Of two messages of a key, the later one may be seen
and the earlier one not, because the query had passed its place, or because the service has not yet applied that part
of a transaction that has committed.

So each message names the one before it of its entity (``previous``). A message that was never given before is given
only where the one before it was given, or stands below it in the same answer, or is gone. Whether it is gone is asked
with a transactional read, which is refused while a transaction is at work there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from botocore.exceptions import ClientError

from fencepost.aws.client import Client
from fencepost.aws.faults import ERRORS, fault_of, reasons
from fencepost.databases.dynamodb.many import ACTIONS_MAX, in_parts
from fencepost.databases.dynamodb.reading import Item
from fencepost.databases.dynamodb.tables import pending_key
from fencepost.errors import Contention

KNOWN_MAX = 50_000
"""So many positions are remembered: those of a round of the relay, and more."""


class Chain:
    """What one session knows of positions: given, or gone."""

    def __init__(self, client: Client, table: str, buckets: int) -> None:
        self._client, self._table, self._buckets = client, table, buckets
        self._known: dict[str, None] = {}

    async def whole(self, items: Sequence[Item], after: str | None) -> Sequence[Item]:
        """The items without those that would go before an earlier one of their key.

        ``after`` is the position above which was read: what stands below it is the caller's business.
        """
        unsure = self._unsure(items)
        waiting = await self._waiting(unsure, after) if unsure else set()
        if waiting:
            items = self._without_those_behind(items, waiting)
        self._know(item["sk"]["S"] for item in items)
        return items

    def _unsure(self, items: Sequence[Item]) -> list[str]:
        """The positions before items of this answer, of which nothing is known."""
        here = {item["sk"]["S"] for item in items}
        new = [item["previous"]["S"] for item in items if "previous" in item and item["sk"]["S"] not in self._known]
        return [position for position in dict.fromkeys(new) if position not in here and position not in self._known]

    async def _waiting(self, positions: Sequence[str], after: str | None) -> set[str]:
        """Those of the positions at which a message waits, or may be about to. The others are gone for good."""
        states = await in_parts(positions, ACTIONS_MAX, self._look)
        seen = dict(zip(positions, states, strict=True))
        self._know(position for position, waits in seen.items() if waits is False)
        below = after or ""
        return {p for p, waits in seen.items() if waits is None or (waits and p > below)}

    async def _look(self, positions: Sequence[str]) -> list[bool | None]:
        """Whether a message waits at each position; None where a transaction is at work there."""
        busy: set[int] = set()
        while True:
            asked = [number for number in range(len(positions)) if number not in busy]
            if not asked:
                return [None] * len(positions)
            answer, refused = await self._read([positions[number] for number in asked])
            if not refused:
                found = dict(zip(asked, answer, strict=True))
                return [found.get(number) for number in range(len(positions))]
            busy |= {asked[number] for number in refused}

    async def _read(self, positions: Sequence[str]) -> tuple[list[bool], set[int]]:
        """Whether each position is there, in one transaction; or which of them another transaction holds."""
        gets = [{"Get": {**self._place(position), "ProjectionExpression": "pk"}} for position in positions]
        try:
            answer = await self._client.ask("transact_get_items", TransactItems=gets)
        except ClientError as error:
            held = {n for n, reason in enumerate(reasons(error)) if reason.get("Code") not in {None, "None"}}
            fault = fault_of(error, self._client.place)
            if held and isinstance(fault, Contention):
                return [], held
            raise fault from error
        except ERRORS as error:
            raise fault_of(error, self._client.place) from error
        return ["Item" in response for response in answer["Responses"]], set()

    def _place(self, position: str) -> dict[str, Any]:
        return {"TableName": self._table, "Key": pending_key(position, self._buckets)}

    def _know(self, positions: Iterable[str]) -> None:
        known = self._known
        known.update(dict.fromkeys(positions))
        for position in [p for p, _ in zip(known, range(len(known) - KNOWN_MAX), strict=False)]:
            del known[position]

    def _without_those_behind(self, items: Sequence[Item], waiting: set[str]) -> list[Item]:
        """Without the items that come after one of ``waiting``, directly or not. What was given before stays."""
        kept = []
        for item in items:
            position = item["sk"]["S"]
            if position not in self._known and "previous" in item and item["previous"]["S"] in waiting:
                waiting.add(position)
            else:
                kept.append(item)
        return kept
