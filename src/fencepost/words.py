"""How numbers are said ("1 message", "2,000 messages"), how a value is repeated, and which name somebody meant who
wrote an unknown one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time


def counted(number: int, noun: str) -> str:
    """A number with its noun, which has an s, or es after a hissing sound, in the plural."""
    plural = f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def as_written(value: object) -> str:
    """A value as it stands in a TOML file, for an error: true, 'text', ['a', 'b'], a number with all its digits."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {as_written(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_written, value)) + "]"
    if isinstance(value, date | time):
        return value.isoformat()
    return repr(value)


def suggestion(name: str, known: Iterable[str]) -> str:
    """A remedy for an unknown name: the nearest known one, and all of them."""
    choices = sorted(known)
    near = _nearest(name, choices, 0.6)
    listed = f"known are {', '.join(choices)}"
    return f"did you mean {near!r}? {listed}" if near else listed


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name of which an unknown one is a slip, for a place where names that others know may stand too."""
    choices = sorted(known)
    return None if name in choices else _nearest(name, choices, 0.8)


def _nearest(name: str, choices: Sequence[str], cutoff: float) -> str | None:
    return next(iter(difflib.get_close_matches(name.strip().lower(), choices, n=1, cutoff=cutoff)), None)
