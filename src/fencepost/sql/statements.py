"""A SQLAlchemy Core statement, compiled once for a driver that knows nothing of SQLAlchemy: text and arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Dialect
from sqlalchemy.sql import ClauseElement


@dataclass(frozen=True, slots=True)
class Prepared:
    """``text`` in the dialect's own parameter style. ``names`` are the parameters, in order where the style is
    positional.
    """

    text: str
    names: tuple[str, ...]
    positional: bool
    _convert: Mapping[str, Callable[[Any], Any]]

    def row(self, values: Mapping[str, Any]) -> list[Any]:
        """The arguments by position."""
        convert = self._convert
        return [convert[n](values[n]) if n in convert else values[n] for n in self.names]

    def mapping(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name."""
        return dict(zip(self.names, self.row(values), strict=True))


def prepare(statement: ClauseElement, dialect: Dialect) -> Prepared:
    """Compile a statement whose parameters are all ``bindparam(name)`` without a value (literals are written into the
    text).
    """
    compiled = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    binds = compiled.binds  # type: ignore[attr-defined]
    names = tuple(compiled.positiontup or binds)  # type: ignore[attr-defined]
    convert = {}
    for name in names:
        processor = binds[name].type.dialect_impl(dialect).bind_processor(dialect)
        if processor is not None:
            convert[name] = processor
    return Prepared(str(compiled), names, bool(compiled.positional), convert)  # type: ignore[attr-defined]
