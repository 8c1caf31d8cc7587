"""The plug-in's own settings: what they are called, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost import settings

LINE_BYTES_MAX = 16_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(settings.Settings):
    """What can be set in ``[broker]`` besides the URL.

    ``fsync``: a message counts as published when the disk has it, not only the operating system. ``line_bytes_max`` is
    the longest line that readers take.
    """

    title = "file"

    fsync: bool = True
    line_bytes_max: int = LINE_BYTES_MAX
