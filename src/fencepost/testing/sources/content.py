"""Rules of content: a message is read exactly as it was added."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest

from fencepost.errors import MessageRefused
from fencepost.message import Message, Stored
from fencepost.testing.messages import HEADERS, KEYS, PAYLOADS, TOPIC, message, rich
from fencepost.testing.on_database import OnDatabase
from fencepost.testing.places import WHOLE, OutboxPlace

MEGABYTE = 1_048_576


def expected(m: Message) -> tuple[object, ...]:
    """What has to be read of a message, without its position."""
    headers = dict(m.headers) or None
    return (m.id, m.topic, m.key, m.version, m.type, m.payload, m.content_type, headers, m.occurred_at.astimezone(UTC))


def found(m: Stored) -> tuple[object, ...]:
    """The same of a message that was read."""
    headers = None if m.headers is None else dict(m.headers)
    return (m.id, m.topic, m.key, m.version, m.type, m.payload, m.content_type, headers, m.occurred_at)


async def check(place: OutboxPlace, *messages: Message) -> None:
    """Add messages and compare what is read with them, field by field."""
    added = await place.add(*messages)
    read = await (await place.session()).pending(WHOLE, len(added) + 1)
    assert len(read) == len(added)
    for a, r in zip(added, read, strict=True):
        assert found(r) == expected(a)
        assert (r.attempts, r.in_doubt) == (0, False)


def has_empty_payloads(place: OutboxPlace) -> bool:
    """False where the database would keep one as none at all: then it is refused."""
    return bool(getattr(place.writer, "empty_payloads", True))


class ContentRules(OnDatabase):
    """Byte for byte, character for character, microsecond for microsecond."""

    async def test_every_field_is_kept(self, place: OutboxPlace) -> None:
        await check(place, rich("k"), rich(), message("k"), message())

    async def test_payloads_are_kept_byte_for_byte(self, place: OutboxPlace) -> None:
        """E3"""
        payloads = PAYLOADS if has_empty_payloads(place) else [payload for payload in PAYLOADS if payload]
        await check(place, *[message("k", payload) for payload in payloads])

    async def test_a_payload_of_a_megabyte_is_kept(self, place: OutboxPlace) -> None:
        size = min(MEGABYTE, getattr(place.writer, "payload_bytes_max", MEGABYTE))
        if size < MEGABYTE:
            with pytest.raises(MessageRefused):
                await place.add(message("k", bytes(MEGABYTE)))
        await check(place, message("k", bytes(range(256)) * (size // 256)))

    async def test_a_tombstone_is_not_an_empty_payload(self, place: OutboxPlace) -> None:
        """E7"""
        if has_empty_payloads(place):
            await check(place, message("k", None), message("k", b""))
            return
        with pytest.raises(MessageRefused):
            await place.add(message("k", b""))
        await check(place, message("k", None))

    async def test_headers_are_kept(self, place: OutboxPlace) -> None:
        """E6"""
        await check(place, *[replace(message("k"), headers={n: v}) for n, v in HEADERS.items()], rich("k"))

    async def test_keys_are_kept_and_told_apart(self, place: OutboxPlace) -> None:
        added = [await place.add(message(key), message(key)) for key in KEYS]
        read = await (await place.session()).pending(WHOLE, 100)
        assert [(m.key, m.version) for m in read] == [(m.key, m.version) for pair in added for m in pair]
        assert [m.key for m in read] == [key for key in KEYS for _ in range(2)]
        firsts = {pair[0].version for pair in added}
        assert len(firsts) in {1, len(KEYS)}  # counted for each key, or drawn from the positions

    async def test_topics_are_kept_and_told_apart(self, place: OutboxPlace) -> None:
        topics = ["a.b", "a_b", "A.b", "a/b", "a-b", "a", TOPIC, "t" * 249]
        await check(place, *[message("k", topic=topic) for topic in topics])

    async def test_times_are_utc_to_the_microsecond(self, place: OutboxPlace) -> None:
        """B9: the sender's zone does not matter."""
        await place.add(rich("k"))
        (m,) = await (await place.session()).pending(WHOLE, 10)
        assert m.occurred_at.utcoffset() == UTC.utcoffset(None)
        assert m.occurred_at.isoformat() == "2026-03-29T00:30:00.123457+00:00"

    async def test_versions_grow_for_each_key_of_a_topic(self, place: OutboxPlace) -> None:
        messages = [message("a"), message("b"), message("a"), message("a", topic="other"), message(), message("a")]
        added = [m for one in messages for m in await place.add(one)]
        of_a = [m.version for m in added if (m.key, m.topic) == ("a", TOPIC)]
        assert of_a == sorted({v for v in of_a if v is not None})
        assert [m.version is None for m in added] == [m.key is None for m in added]
        read = await (await place.session()).pending(WHOLE, 10)
        assert [m.version for m in read] == [m.version for m in added]
