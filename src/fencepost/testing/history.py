"""The judge of histories, for tests. It lives in ``fencepost.history``, where the demonstration finds it too."""

from __future__ import annotations

from fencepost.history import EXAMPLES, Entry, Report, compare

__all__ = ["EXAMPLES", "Entry", "Report", "compare"]
