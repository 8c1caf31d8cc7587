"""The quick way to write times gives the same text as the plain one."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from fencepost.envelope import TimeText, rfc3339
from fencepost.message import microseconds

ZONES = st.one_of(st.just(UTC), st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))))
MOMENTS = st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1), timezones=ZONES)  # noqa: DTZ001
STEPS = st.integers(-3_000_000, 3_000_000).map(lambda microseconds: timedelta(microseconds=microseconds))


@given(MOMENTS, st.lists(STEPS, max_size=20))
def test_times_are_written_as_the_plain_way_does(first: datetime, steps: list[timedelta]) -> None:
    text = TimeText()
    moments = [first, first.replace(microsecond=0), *(first + step for step in steps), first]
    assert [text(microseconds(moment)) for moment in moments] == [rfc3339(moment) for moment in moments]
