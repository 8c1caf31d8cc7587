"""What a process that does nothing but relay may do to itself."""

from __future__ import annotations

import gc

_THRESHOLDS = (20_000, 50, 100)


def dedicate() -> None:
    """Let the garbage collector look less often, and no more at what was imported.

    Messages come by the thousand and form no cycles: with Python's own thresholds a tenth of the time goes into
    looking at them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
