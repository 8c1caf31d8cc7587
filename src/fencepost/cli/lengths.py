"""Lengths of time and moments as they are written on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from fencepost.errors import ConfigurationError

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)?\Z")
_UNITS_S = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds_of(text: str, option: str = "--older-than") -> float:
    """A length of time as it is written: "90", "90s", "30m", "12h", "7d". Raises ConfigurationError."""
    seconds = _seconds(text)
    if seconds is None:
        raise ConfigurationError(f"{option} {text!r}", remedy="write a number with s, m, h or d: 7d, 12h, 90s")
    return seconds


def moment_of(option: str, text: str, now: datetime) -> datetime:
    """A moment: "2026-03-01T12:00", in UTC unless it says otherwise, or how long ago it was. Raises
    ConfigurationError.
    """
    seconds = _seconds(text)
    try:
        if seconds is not None:
            return now - timedelta(seconds=seconds)
        moment = datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        remedy = "write a time in UTC, 2026-03-01T12:00, or how long ago: 90s, 30m, 2h, 7d"
        raise ConfigurationError(f"{option} {text!r}", remedy=remedy) from error


def _seconds(text: str) -> float | None:
    found = _LENGTH.match(text.strip())
    return None if found is None else float(found[1]) * _UNITS_S[found[2]]
