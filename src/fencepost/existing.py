"""A table of somebody else that serves as an outbox as it is: what its columns mean.

Topic and type are templates: text in which ``{column}`` stands for a column of the row, so that they may be fixed, a
column, or made of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

_PART = re.compile(r"\{([^{}]+)\}|([^{}]+)|(.)", re.DOTALL)

Problem = tuple[str, str, str]
"""The key that is wrong, what is wrong, and the remedy."""

STATES = ("pending", "in_doubt", "settled", "parked")
"""The keys that name values of the state column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTable:
    """Names of columns, but for ``topic`` and ``type``, which are templates, and ``content_type``, a fixed text.

    ``position`` orders the rows: a column with unique whole numbers, or a time, with ``id`` for those of one time.
    ``pending``, ``in_doubt``, ``settled`` and ``parked`` are values of the column ``state``. None is what the table
    does not have.
    """

    table: str
    position: str
    topic: str
    payload: str
    id: str = "id"
    key: str | None = None
    version: str | None = None
    type: str = "message"
    headers: str | None = None
    content_type: str = "application/json"
    occurred_at: str | None = None
    state: str | None = None
    pending: str | None = None
    in_doubt: str | None = None
    settled: str | None = None
    parked: str | None = None
    settled_at: str | None = None
    attempts: str | None = None
    last_error: str | None = None

    def columns(self) -> Iterator[tuple[str, str]]:
        """Every column that is named, and the key that names it."""
        for key in ("position", "id", "payload", "key", "version", "headers", "occurred_at", "state"):
            yield from self._named(key)
        for key in ("settled_at", "attempts", "last_error"):
            yield from self._named(key)
        for key in ("topic", "type"):
            yield from ((name, key) for kind, name in parts(getattr(self, key)) if kind == "column")

    def _named(self, key: str) -> Iterator[tuple[str, str]]:
        if (name := getattr(self, key)) is not None:
            yield name, key

    @property
    def waiting(self) -> tuple[str, ...]:
        """The states of rows that may be published."""
        return tuple(value for value in (self.pending, self.in_doubt) if value is not None)


def parts(template: str) -> list[tuple[Literal["column", "text"], str]]:
    """A template as columns and the texts between them. Raises ValueError where a brace has no partner."""
    found: list[tuple[Literal["column", "text"], str]] = []
    for match in _PART.finditer(template):
        if match[3] is not None:
            raise ValueError(f"a brace without its partner in {template!r}")
        found.append(("column", match[1]) if match[1] is not None else ("text", match[2]))
    return found


def problems(given: Mapping[str, Any], *, settle: str, retention: bool) -> Iterator[Problem]:
    """What contradicts itself in the keys of an existing table, those that are absent being None or not there."""
    for key in ("table", "position", "topic", "payload"):
        if given.get(key) is None:
            yield key, "is missing", f'add {key} = "..."'
    for key in ("topic", "type"):
        try:
            parts(given.get(key) or "")
        except ValueError as error:
            yield key, str(error), "write {column} for a column of the row"
    yield from _state_problems(given, settle)
    if retention and given.get("settled_at") is None:
        yield "settled_at", "is missing, so that nobody knows what is old enough", "name the column, or no retention_s"


def _state_problems(given: Mapping[str, Any], settle: str) -> Iterator[Problem]:
    named = [key for key in STATES if given.get(key) is not None]
    if given.get("state") is None:
        for key in (*named, *(["state"] if settle == "mark" else [])):
            yield key, "needs a column of states", 'add state = "..."'
        return
    if given.get("pending") is None:
        yield "pending", "is missing", "write which value of the state column means: not published yet"
    if settle == "mark" and given.get("settled") is None:
        yield "settled", "is missing", "write which value of the state column means: published"
    values = [given[key] for key in named]
    for key in named:
        if values.count(given[key]) > 1:
            yield key, f"is {given[key]!r}, as another state", "give each state a value of its own"
