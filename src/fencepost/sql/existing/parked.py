"""The parked messages of an existing table, for an operator.

Where they stay in the table, in a state of their own, a retried one waits again at the place where it stands: its
position, its version and its headers are the application's. Where they were moved out of the table nobody can make them
rows of it again: nothing is known of its other columns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from fencepost.errors import ConfigurationError
from fencepost.message import Stored, microseconds
from fencepost.ports import ParkedFilter, ParkedMessage, ParkedStore
from fencepost.ports.parking import filtered_count, filtered_page, gone
from fencepost.sql.parked_store import Line, SqlParkedStore
from fencepost.sql.place import SqlOutbox
from fencepost.sql.source import LOWEST, SourceStatements
from fencepost.sql.statements import Prepared
from fencepost.sql.transaction import Call, Rows, Work


def parked_store(line: Line, outbox: SqlOutbox) -> ParkedStore:
    """The parked messages of any outbox, wherever they are."""
    table = outbox.options.table
    if table is None:
        return SqlParkedStore(line, outbox.dialect, outbox.options)
    if table.parked is not None:
        return StatedParked(line, outbox.statements, outbox.place)
    refused = ConfigurationError(
        f"a parked message cannot become a row of {table.table} again: nothing is known of its other columns",
        remedy="let the application add it anew, and discard it here; [existing] state and parked, which name a state"
        " of parked rows, let later ones stay where they are",
    )
    return SqlParkedStore(line, outbox.dialect, outbox.options, refused)


class StatedParked:
    """``fencepost.ports.ParkedStore`` says what each call promises. A place is the position.

    Nobody keeps when they were parked. Versions are kept in any case.
    """

    def __init__(self, line: Line, say: SourceStatements, place: str) -> None:
        self._line, self._say, self._place = line, say, place

    async def page(
        self, which: ParkedFilter, limit: int, after: ParkedMessage | None = None
    ) -> Sequence[ParkedMessage]:
        return await filtered_page(self._read, which, limit, after)

    async def count(self, which: ParkedFilter) -> int:
        if which.everything:
            return int((await self._rows(self._say.parked_count))[0][0])
        return await filtered_count(self._read, which)

    async def payload(self, parked: ParkedMessage) -> bytes | None:
        rows = await self._rows(self._say.parked_payload, position=parked.place, id=parked.message.id)
        if not rows:
            raise gone(self._place, parked)
        return None if rows[0][0] is None else bytes(rows[0][0])

    async def retry(self, rows: Sequence[ParkedMessage], *, keep_versions: bool = False) -> Sequence[str]:
        return await self._line.transaction(partial(_each, self._say.parked_find, self._say.parked_retry, rows))

    async def discard(self, rows: Sequence[ParkedMessage]) -> Sequence[str]:
        return await self._line.transaction(partial(_each, self._say.parked_find, self._say.parked_discard, rows))

    async def close(self) -> None:
        await self._line.close()

    async def _read(self, most: int, after: ParkedMessage | None) -> Sequence[ParkedMessage]:
        first = (self._say.lowest or LOWEST) if after is None else after.place
        return [_parked(row) for row in await self._rows(self._say.parked_page, after=first, most=most)]

    async def _rows(self, text: str, **values: object) -> Rows:
        return await self._line.transaction(lambda: _asked(text, values))


def _asked(text: str, values: dict[str, object]) -> Work[Rows]:
    return (yield Call(_prepared(text, *values), values))


def _each(find: str, change: str, rows: Sequence[ParkedMessage]) -> Work[list[str]]:
    done = set()
    for row in sorted(rows, key=lambda each: (each.place, each.message.id)):
        values = {"position": row.place, "id": row.message.id}
        if (yield Call(_prepared(find, *values), values)):
            yield Call(_prepared(change, *values), values)
            done.add(row.message.id)
    return [row.message.id for row in rows if row.message.id in done]


def _prepared(text: str, *names: str) -> Prepared:
    """A statement that was written by hand, whose arguments stand in this order."""
    return Prepared(text, names, True, {})


def _parked(row: Sequence[Any]) -> ParkedMessage:
    position, id_, topic, key, version, kind, payload, content_type, headers, occurred, attempts, _, reason = row
    given = json.loads(headers) if isinstance(headers, str) else headers
    described = (position, str(id_), topic, key, version, kind, None, content_type, given or None)
    return ParkedMessage(
        message=Stored(*described, _microseconds(occurred), int(attempts)),
        payload_bytes=None if payload is None else len(payload),
        reason="" if reason is None else str(reason),
        parked_at=None,
        place=position,
    )


def _microseconds(moment: datetime | str | int) -> int:
    """A time as each database gives it: a number counts since 1970 already."""
    if isinstance(moment, int):
        return moment
    read = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return microseconds(read if read.tzinfo is not None else read.replace(tzinfo=UTC))
