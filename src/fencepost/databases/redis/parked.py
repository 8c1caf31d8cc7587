"""The parked messages of an outbox in Redis, for an operator: read, retried and discarded on one connection."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fencepost.databases.redis import entry, scripts
from fencepost.databases.redis.keys import Keys
from fencepost.errors import FixError
from fencepost.message import Stored
from fencepost.ports import ParkedFilter, ParkedMessage
from fencepost.ports.parking import again, filtered_count, filtered_page, gone
from fencepost.resp.link import Link, Word


class RedisParked:
    """``fencepost.ports.ParkedStore`` says what each call promises. A place is the id of an entry."""

    def __init__(self, keys: Keys, link: Link) -> None:
        self._keys, self._link = keys, link

    async def page(
        self, which: ParkedFilter, limit: int, after: ParkedMessage | None = None
    ) -> Sequence[ParkedMessage]:
        return await filtered_page(self._read, which, limit, after)

    async def count(self, which: ParkedFilter) -> int:
        if which.everything:
            return int(await self._link.one("XLEN", self._keys.parked))
        return await filtered_count(self._read, which)

    async def payload(self, parked: ParkedMessage) -> bytes | None:
        name = str(parked.place)
        found = await self._link.one("XRANGE", self._keys.parked, name, name)
        if not found:
            raise gone(self._link.place, parked)
        payload: bytes | None = _fields(found[0][1]).get(b"payload")
        return payload

    async def retry(self, rows: Sequence[ParkedMessage], *, keep_versions: bool = False) -> Sequence[str]:
        k = self._keys
        shared = (k.outbox, k.position, k.delayed, k.due)
        keys, arguments = [k.parked, *shared, k.outbox], list[Word]()
        for m, name in ((row.message, str(row.place)) for row in rows):
            counts = k.outbox if m.key is None or keep_versions else k.entity(m.topic, m.key)
            keys += [*shared, counts]
            entity = "" if m.key is None else f"{m.topic} {m.key}"
            line = entry.line_of(again(m, keep_version=keep_versions))
            arguments += [name, entry.digest(m.id), entity, _uncounted(m, keep=keep_versions), line]
        return self._those(rows, await self._link.run(scripts.RETRY, keys, arguments))

    async def discard(self, rows: Sequence[ParkedMessage]) -> Sequence[str]:
        names = [str(row.place) for row in rows]
        return self._those(rows, await self._link.run(scripts.DISCARD, (self._keys.parked,), names))

    async def close(self) -> None:
        await self._link.end("the look is over")

    async def _read(self, most: int, after: ParkedMessage | None) -> Sequence[ParkedMessage]:
        begin = "-" if after is None else f"({after.place}"
        found = await self._link.run(scripts.PARKED_PAGE, (self._keys.parked,), (begin, most))
        try:
            return [_parked(name.decode(), _fields(words)) for name, words in found]
        except (KeyError, ValueError) as error:
            what = f"{self._link.place}: what is no message stands in the stream {self._keys.parked}: {error!r:.200}"
            raise FixError(what, remedy="XDEL what is not one") from error

    @staticmethod
    def _those(rows: Sequence[ParkedMessage], names: Sequence[bytes]) -> list[str]:
        by_name = {str(row.place): row.message.id for row in rows}
        return [by_name[name.decode()] for name in names]


def _uncounted(m: Stored, *, keep: bool) -> str:
    """The version where no entity counts: a position that was the version becomes a new one, unless it is kept."""
    return "=" if m.version is None or (m.version == m.position and not keep) else str(m.version)


def _fields(words: Sequence[Any]) -> dict[bytes, Any]:
    return dict(zip(words[::2], words[1::2], strict=True))


def _parked(name: str, fields: dict[bytes, Any]) -> ParkedMessage:
    kept = [word for part in (b"version", b"message") if part in fields for word in (part, fields[part])]
    message = entry.stored((fields[b"position"] + b"-0", kept))
    size = fields.get(b"payload")
    return ParkedMessage(
        message=message._replace(attempts=int(fields[b"attempts"])),
        payload_bytes=None if size is None else int(size),
        reason=fields[b"reason"].decode(errors="replace"),
        parked_at=datetime.fromtimestamp(int(name.partition("-")[0]) / 1000, UTC),
        place=name,
    )
