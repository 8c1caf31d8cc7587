"""One thing that was found about one part, for people to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fencepost.errors import FencepostError

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``part`` is "database", "lease", "broker" or "delivery"; ``remedy`` is "" where nothing need be done."""

    part: str
    level: Level
    what: str
    remedy: str = ""


def failed(part: str, error: FencepostError) -> Finding:
    """An error as a finding."""
    return Finding(part=part, level="error", what=error.what, remedy=error.remedy)
