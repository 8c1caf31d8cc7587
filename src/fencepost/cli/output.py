"""What goes to standard output: Rich on a terminal, plain lines in a pipe, JSON on request."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


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
