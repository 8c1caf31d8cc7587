"""Texts with dates and times as the numbers that Avro writes. A text that is finer than the unit has none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta

_DATE = r"(\d{4}-\d\d-\d\d)"
_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
_DAY = re.compile(rf"{_DATE}\Z")
_TIME = re.compile(rf"{_CLOCK}\Z")
_MOMENT = re.compile(rf"{_DATE}[Tt ]{_CLOCK}([Zz]|[+-]\d\d:\d\d)\Z")
_LOCAL = re.compile(rf"{_DATE}[Tt ]{_CLOCK}\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI, _MICRO, _NANO = 3, 6, 9
"""Digits after the point."""


def _day(text: str) -> int | None:
    """Days since 1970."""
    match = _DAY.match(text)
    if match is None:
        return None
    try:
        return (date.fromisoformat(match[1]) - _EPOCH.date()).days
    except ValueError:
        return None


def _time(digits: int) -> Callable[[str], int | None]:
    """Units since midnight."""

    def read(text: str) -> int | None:
        match = _TIME.match(text)
        if match is None or int(match[1]) > 23 or int(match[2]) > 59 or int(match[3]) > 59:
            return None
        seconds = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3])
        return _with_fraction(seconds, match[4], digits)

    return read


def _moment(digits: int) -> Callable[[str], int | None]:
    """Units since 1970 in UTC, of a text with an offset (RFC 3339)."""
    return lambda text: _since(_MOMENT.match(text), digits, offset=True)


def _local(digits: int) -> Callable[[str], int | None]:
    """Units since 1970 by the same clock, of a text without an offset."""
    return lambda text: _since(_LOCAL.match(text), digits, offset=False)


def _since(match: re.Match[str] | None, digits: int, *, offset: bool) -> int | None:
    if match is None:
        return None
    zone = match[6].upper().replace("Z", "+00:00") if offset else "+00:00"
    try:
        second = datetime.fromisoformat(f"{match[1]}T{match[2]}:{match[3]}:{match[4]}{zone}")
    except ValueError:
        return None
    since: timedelta = second - _EPOCH
    return _with_fraction(since // timedelta(seconds=1), match[5], digits)


def _with_fraction(seconds: int, fraction: str | None, digits: int) -> int | None:
    kept = (fraction or "").rstrip("0")
    if len(kept) > digits:
        return None
    units: int = 10**digits
    return seconds * units + int(kept.ljust(digits, "0"))


TIMES: Mapping[object, Callable[[str], int | None]] = {
    "date": _day,
    "time-millis": _time(_MILLI),
    "time-micros": _time(_MICRO),
    "timestamp-millis": _moment(_MILLI),
    "timestamp-micros": _moment(_MICRO),
    "timestamp-nanos": _moment(_NANO),
    "local-timestamp-millis": _local(_MILLI),
    "local-timestamp-micros": _local(_MICRO),
    "local-timestamp-nanos": _local(_NANO),
}
"""By the name of the logical type."""
