"""What a database says of a table that somebody else has made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["integer", "text", "uuid", "binary", "json", "time", "other"]


@dataclass(frozen=True, slots=True)
class Column:
    """``declared`` is the type in the database's own words."""

    name: str
    kind: Kind
    declared: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class Index:
    """``columns`` in order; ``where`` is the condition of a partial one, "" for an index of all rows. ``name``: where a
    statement has to name it.
    """

    columns: tuple[str, ...]
    unique: bool
    where: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Described:
    """A table as it is. ``columns`` is empty where there is no such table. ``alike``: pairs of states that are the same
    to the database, though they are not written alike.
    """

    columns: Mapping[str, Column]
    indexes: tuple[Index, ...]
    alike: frozenset[tuple[str, str]] = frozenset()
