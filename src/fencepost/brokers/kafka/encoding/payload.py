"""A message's payload as values, with every number exactly as it was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from fencepost.message import Stored

DIGITS_MAX = 4000
"""A number of more digits is nobody's data."""

NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
"""Texts that both formats take for what JSON has no number for."""


class Misfit(Exception):
    """A payload does not fit. ``path`` leads to the place: names of fields and indexes, the outermost last.

    It never repeats a value: reasons are logged and shown, and a payload may be nobody else's business.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        self.path: list[str | int] = []
        super().__init__(why)

    def under(self, step: str | int) -> Misfit:
        """The same, as seen from one step further out."""
        self.path.append(step)
        return self

    def __str__(self) -> str:
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self.path))
        return f"{where.lstrip('.')}: {self.why}" if where else self.why


def parsed(message: Stored) -> object:
    """The payload's JSON. Whole numbers are int, all others Decimal. Raises Misfit."""
    if not is_json(message.content_type):
        raise Misfit(f"the content type is {message.content_type}, and only JSON can be encoded")
    try:
        return _decode((message.payload or b"").decode("utf-8"))
    except RecursionError:
        raise Misfit("the payload is nested too deeply") from None
    except ValueError as error:
        raise Misfit(f"the payload is not JSON: {_said(error)}") from None
    except ArithmeticError:
        raise Misfit("the payload has a number whose exponent is beyond all bounds") from None


def is_json(content_type: str) -> bool:
    """Whether payloads of this content type are JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))


def kind_of(value: object) -> str:
    """What a value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    return {str: "a text", int: "a whole number", Decimal: "a number", dict: "an object", list: "a list"}.get(
        type(value), f"a {type(value).__name__}"
    )


def exact(value: Any) -> Decimal | None:
    """The number that a value of JSON is, or that its text is; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    if isinstance(value, str) and (len(value) > DIGITS_MAX or value != value.strip() or "_" in value):
        return None
    try:
        number = Decimal(value)
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


def unlike(value: object, kind: str) -> Misfit:
    """A value of JSON is not of the kind that the schema has there."""
    return Misfit(f"{kind_of(value)} where the schema has {kind}")


def under(step: str | int, convert: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns; a Misfit of its leads one step further."""
    try:
        return convert(*arguments)
    except Misfit as misfit:
        raise misfit.under(step) from None


def whole(value: Any, kind: str, limits: range) -> int:
    """The whole number that a value of JSON is, or that its text is. Raises Misfit."""
    number = exact(value)
    if number is None or number != number.to_integral_value():
        raise unlike(value, kind)
    if not limits[0] <= number <= limits[-1]:
        raise Misfit(f"the number is too large for {kind}")
    return int(number)


def as_double(value: int | Decimal) -> float:
    """The number in 64 bits. Raises Misfit where it would be another number then.

    What a program writes of a double of its own is that double again; 0.1 is meant to be what everybody takes for it.
    """
    try:
        double = float(value)
    except OverflowError:
        double = float("inf")
    if double in (float("inf"), float("-inf")) or Decimal(repr(double)) != value:
        raise Misfit("the number has more digits than a double keeps, or is too large for it")
    return double


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _refuse(constant: str) -> None:
    """Python reads NaN and the infinities, which JSON has not."""
    raise ValueError(f"{constant} is no number of JSON")


_decode = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_object).decode


def _said(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (line {error.lineno}, column {error.colno})"
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
