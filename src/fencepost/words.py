"""How numbers are said ("1 message", "2,000 messages"), and which name somebody meant who wrote an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def counted(number: int, noun: str) -> str:
    """A number with its noun, which has an s, or es after a hissing sound, in the plural."""
    plural = f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


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
