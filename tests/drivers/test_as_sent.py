"""Whatever an application hands over is refused, or stands in the table exactly as it was sent."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import MessageRefused
from fencepost.outbox import NewMessage, Outbox
from tests.drivers.ways import Place

LINE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=50).map(str.strip)
TEXT = st.text(max_size=40)
TIMES = st.datetimes(timezones=st.timezones())


def messages(topics: Any, names: Any, lines: Any, keys: Any, numbers: Any) -> Any:
    return st.builds(
        NewMessage,
        topic=topics,
        payload=st.none() | st.binary(max_size=2000) | st.dictionaries(lines, lines | numbers, max_size=3),
        key=st.none() | keys,
        type=st.just("message") | lines,
        headers=st.dictionaries(names, lines | st.just(""), max_size=3),
        version=st.none(),
        content_type=st.none() | lines,
        id=st.none(),
        occurred_at=st.none() | TIMES,
        available_at=st.none() | TIMES.filter(lambda moment: moment.year > 2100),
    )


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
TOPICS = st.from_regex(r"[A-Za-z0-9._/-]{1,20}", fullmatch=True)
KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
USUAL = messages(TOPICS, NAMES, LINE.filter(bool), KEYS, st.floats(allow_nan=False, allow_infinity=False))
ODD = messages(TOPICS | TEXT, NAMES | TEXT, TEXT, TEXT, st.floats())


def test_as_sent_or_refused(place: Place) -> None:
    """E3, E4, E6, E7, B9: one by one and as a batch."""
    outbox = Outbox(max_bytes=1500, **place.names)
    table = place.tables.outbox
    seen = {"kept": 0, "refused": 0}

    with place.engine().connect() as connection:

        @settings(max_examples=60, deadline=None, database=None)
        @given(USUAL | ODD)
        def examine(new: NewMessage) -> None:
            with connection.begin():
                try:
                    one = outbox.add(connection, **new._asdict())
                except MessageRefused:
                    seen["refused"] += 1
                    return
                two, three = outbox.add_all(connection, [new, new])
                rows = connection.execute(sa.select(table).order_by(table.c.seq)).all()
                connection.execute(table.delete())
            for message, row in zip((one, two, three), rows, strict=True):
                same(new, message, row)
            seen["kept"] += 1

        examine()
    assert min(seen.values()) > 10


def same(new: NewMessage, message: Any, row: Any) -> None:
    assert (row.id, row.topic, row.key, row.type) == (message.id, new.topic, new.key, new.type)
    if new.payload is None or isinstance(new.payload, bytes):
        assert row.payload == new.payload
    else:
        assert json.loads(row.payload) == new.payload
    assert (json.loads(row.headers) if row.headers else {}) == new.headers
    assert row.content_type == (new.content_type or message.content_type)
    if new.occurred_at is not None:
        assert row.occurred_at == new.occurred_at.astimezone(UTC)
    expected = None if new.available_at is None else new.available_at.astimezone(UTC)
    assert row.available_at == expected
