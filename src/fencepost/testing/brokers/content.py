"""Rules of content: a message arrives exactly as it was added."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from fencepost.message import Stored
from fencepost.testing.brokers.publishing import publish_all
from fencepost.testing.brokers.refusing import deliver
from fencepost.testing.harness import Seen
from fencepost.testing.messages import HEADERS, KEYS, ODD_KEYS, PAYLOADS, message, rich
from fencepost.testing.on_broker import OnBroker
from fencepost.testing.places import SOURCE, BrokerPlace


def check(m: Stored, seen: Seen) -> None:
    """Compare a message with what was read of it, field by field."""
    attributes = dict(seen.attributes)
    assert datetime.fromisoformat(attributes.pop("time")) == m.occurred_at
    expected = {
        "specversion": "1.0",
        "id": m.id,
        "source": SOURCE,
        "type": m.type,
        "datacontenttype": m.content_type,
        "subject": m.key,
        "entityversion": None if m.version is None else str(m.version),
        "possiblerepeat": "true" if m.in_doubt else None,
    }
    assert attributes == {name: value for name, value in expected.items() if value is not None}
    assert dict(seen.headers) == dict(m.headers or {})
    assert seen.payload == m.payload


async def check_each(place: BrokerPlace, batch: list[Stored]) -> None:
    """Publish a batch and compare each message with what is read."""
    outcome = await (await place.owner()).publish(batch)
    assert [str(failure.error) for failure in outcome.failed] == []
    seen = {s.id: s for s in await place.read()}
    assert len(seen) == len(batch)
    for m in batch:
        check(m, seen[m.id])


class ContentRules(OnBroker):
    """Byte for byte, character for character."""

    async def test_every_field_arrives(self, place: BrokerPlace) -> None:
        messages = [rich("k"), rich(), message("k"), message()]
        await check_each(place, [place.take(replace(m, topic=place.topic)) for m in messages])

    async def test_payloads_arrive_byte_for_byte(self, place: BrokerPlace) -> None:
        """E3"""
        await check_each(place, [place.take(message("k", payload, topic=place.topic)) for payload in PAYLOADS])

    async def test_a_tombstone_is_not_an_empty_payload(self, place: BrokerPlace) -> None:
        """E7"""
        await check_each(
            place, [place.take(message("k", payload, topic=place.topic)) for payload in (None, b"", b"{}")]
        )

    async def test_headers_arrive(self, place: BrokerPlace) -> None:
        """E6"""
        messages = [replace(message("k", topic=place.topic), headers={n: v}) for n, v in HEADERS.items()]
        await check_each(place, [place.take(m) for m in messages])

    async def test_keys_arrive_and_are_told_apart(self, place: BrokerPlace) -> None:
        await check_each(place, place.batch(*KEYS, *KEYS))

    async def test_odd_keys_arrive_as_they_are_or_are_refused_alone(self, place: BrokerPlace) -> None:
        """E6: never changed on the way, by a blank that is cut off or a line that ends a header."""
        batch = place.batch(*[key for odd in ODD_KEYS for key in (odd, "k", odd)])
        refused = {f.message.id for f in await deliver(await place.owner(), batch)}
        seen = {s.id: s for s in await place.read()}
        assert seen.keys() == {m.id for m in batch} - refused
        assert all(m.key in ODD_KEYS for m in batch if m.id in refused)
        for m in batch:
            if m.id not in refused:
                check(m, seen[m.id])

    async def test_only_what_is_in_doubt_is_marked_as_a_possible_repeat(self, place: BrokerPlace) -> None:
        """A5"""
        one, two, three = place.batch("a", "b", None)
        await check_each(place, [one, two._replace(in_doubt=True), three])

    async def test_attempts_do_not_show(self, place: BrokerPlace) -> None:
        (m,) = place.batch("a")
        await check_each(place, [m._replace(attempts=3)])

    async def test_times_with_and_without_fractions_arrive(self, place: BrokerPlace) -> None:
        moments = [datetime(2026, 3, 1, 12, tzinfo=UTC), datetime(1999, 12, 31, 23, 59, 59, 1, UTC)]
        messages = [replace(message("k", topic=place.topic), occurred_at=moment) for moment in moments]
        await check_each(place, [place.take(m) for m in messages])

    async def test_the_thousandth_message_has_the_headers_of_the_first(self, place: BrokerPlace) -> None:
        """A14"""
        handoff = await place.owner()
        for _ in range(10):
            messages = [replace(rich("k"), topic=place.topic, payload=b"{}") for _ in range(100)]
            await publish_all(handoff, [place.take(m) for m in messages])
        seen = await place.read()
        assert len(seen) == 1_000
        first, last = seen[0], seen[-1]
        assert (first.attributes.keys(), first.headers) == (last.attributes.keys(), last.headers)
