"""CPU seconds and peak memory of this process."""

from __future__ import annotations

import resource
import sys


def cpu_s() -> float:
    """User and system seconds so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_rss_mb() -> float:
    """The largest resident set so far, in 10**6 bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
