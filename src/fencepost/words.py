"""How numbers are said: "1 message", "2,000 messages"."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number with its noun, which has an s, or es after a hissing sound, in the plural."""
    plural = f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
