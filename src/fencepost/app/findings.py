"""One thing that was found about one part, for people to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fencepost.errors import FencepostError, RetryError

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``part`` is "database", "lease", "broker", "delivery", or the section of a further broker ("brokers.archive");
    ``remedy`` is "" where nothing need be done, or where nothing is known. ``passes``: an error for whose end a relay
    waits, trying again; others end it at its start.
    """

    part: str
    level: Level
    what: str
    remedy: str = ""
    passes: bool = False


def failed(part: str, error: FencepostError) -> Finding:
    """An error as a finding."""
    passes = isinstance(error, RetryError)
    return Finding(part=part, level="error", what=error.what, remedy=error.remedy, passes=passes)
