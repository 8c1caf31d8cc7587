"""What goes to standard output: Rich on a terminal, plain lines in a pipe, JSON on request."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fencepost.clock import SYSTEM_CLOCK
from fencepost.words import counted

if TYPE_CHECKING:
    from rich.console import Console

_SO_FAR_EVERY_S = 2.0


def on_terminal() -> bool:
    """True where a person is looking."""
    return sys.stdout.isatty()


def line(text: str = "") -> None:
    """One line, seen at once by whoever reads the pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def json_line(record: object) -> None:
    """One JSON object on one line; records become objects, tuples become lists."""
    shown = record if isinstance(record, Mapping) else dataclasses.asdict(record)  # type: ignore[call-overload]
    line(json.dumps(shown, default=str))


class SoFar:
    """Tells now and then how many there are by now: "purged 2,000 rows so far"."""

    def __init__(self, done: str, noun: str, *, shown: bool) -> None:
        self._done, self._noun, self._shown = done, noun, shown
        self._told_s = SYSTEM_CLOCK.monotonic()

    def __call__(self, number: int) -> None:
        now_s = SYSTEM_CLOCK.monotonic()
        if self._shown and now_s - self._told_s >= _SO_FAR_EVERY_S:
            self._told_s = now_s
            line(f"{self._done} {counted(number, self._noun)} so far")


def console() -> Console:
    """Rich for standard output. Texts are printed as they are: no markup, no guessed colours."""
    from rich.console import Console

    return Console(markup=False, highlight=False, soft_wrap=True)


def seconds(value: float) -> str:
    """A duration for people: "0.35 s", "12 s", "3 min", "5 h", "2 d"."""
    for limit, divisor, unit, digits in (
        (10, 1, "s", 2),
        (120, 1, "s", 0),
        (7200, 60, "min", 0),
        (172_800, 3600, "h", 0),
    ):
        if value < limit:
            return f"{value / divisor:.{digits}f} {unit}"
    return f"{value / 86_400:.0f} d"
