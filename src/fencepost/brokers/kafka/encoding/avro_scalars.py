"""From JSON to Avro's types that hold one value, the logical types among them. Nothing is rounded or cut off."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from fencepost.brokers.kafka.encoding.avro_times import TIMES
from fencepost.brokers.kafka.encoding.payload import (
    DIGITS_MAX,
    NO_NUMBERS,
    Misfit,
    as_double,
    exact,
    unlike,
    whole,
)

Convert = Callable[[Any], Any]

_INT = range(-(2**31), 2**31)
_LONG = range(-(2**63), 2**63)


def scalar(kind: str, schema: Mapping[str, Any]) -> Convert:
    """The function for a type, with the logical type that ``schema`` names; one that is not known is passed over.

    Raises LookupError for a type that does not exist.
    """
    logical = schema.get("logicalType")
    if logical == "decimal":
        return _decimal(schema["precision"], schema.get("scale", 0), schema.get("size"))
    if logical == "uuid":
        return _uuid if kind == "string" else _uuid_bytes
    if kind in ("int", "long"):
        number = _whole(_INT if kind == "int" else _LONG, kind)
        return _time(TIMES[logical], number) if logical in TIMES else number
    return _fixed(schema["size"]) if kind == "fixed" else _SCALARS[kind]


def _null(value: Any) -> None:
    if value is not None:
        raise unlike(value, "null")


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise unlike(value, "boolean")
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise unlike(value, "string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misfit("half of a surrogate pair, which is no text") from None
    return value


def _whole(limits: range, kind: str) -> Convert:
    return lambda value: value if type(value) is int and value in limits else whole(value, kind, limits)


def _real(kind: str, read: Callable[[int | Decimal], float]) -> Convert:
    def real(value: Any) -> float:
        if isinstance(value, str) and value in NO_NUMBERS:
            return float(value)
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            raise unlike(value, kind)
        return read(value)

    return real


def _single(value: int | Decimal) -> float:
    """32 bits: rounded, as the schema says."""
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", float(value)))
    except OverflowError:
        single = math.inf
    if math.isinf(single):
        raise Misfit("the number is too large for float")
    return float(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise unlike(value, "bytes")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit("the text is not base64, as which bytes are written in JSON") from None


def _fixed(size: int) -> Convert:
    def fixed(value: Any) -> bytes:
        found = _bytes(value)
        if len(found) != size:
            raise Misfit(f"{len(found)} bytes where the schema has {size}")
        return found

    return fixed


_SCALARS: Mapping[str, Convert] = {
    "null": _null,
    "boolean": _boolean,
    "string": _string,
    "bytes": _bytes,
    "float": _real("float", _single),
    "double": _real("double", as_double),
}

# -- logical types -----------------------------------------------------------------------------------------------------


def _decimal(precision: int, scale: int, size: int | None) -> Convert:
    def convert(value: Any) -> bytes:
        number = exact(value)
        if number is None:
            raise unlike(value, "decimal")
        unscaled = _unscaled(number, scale)
        if unscaled is None or len(str(abs(unscaled))) > precision:
            raise Misfit(f"the number does not fit a decimal of {precision} digits, {scale} of them after the point")
        try:
            return unscaled.to_bytes(size or (unscaled.bit_length() + 8) // 8, "big", signed=True)
        except OverflowError:
            raise Misfit(f"the number does not fit {size} bytes") from None

    return convert


def _unscaled(number: Decimal, scale: int) -> int | None:
    """The number times ten to the power of ``scale``, None where that is not whole or beyond all bounds.

    Decimal's own arithmetic would round to the digits of its context.
    """
    sign, digits, exponent = number.as_tuple()
    whole = int("".join(map(str, digits)))
    shift = int(exponent) + scale
    if whole and abs(shift) > DIGITS_MAX:
        return None
    if shift < 0 and whole:
        whole, rest = divmod(whole, 10**-shift)
        if rest:
            return None
    elif whole:
        whole *= 10**shift
    return -whole if sign else whole


def _uuid(value: Any) -> str:
    return str(_parsed_uuid(value))


def _uuid_bytes(value: Any) -> bytes:
    return _parsed_uuid(value).bytes


def _parsed_uuid(value: Any) -> UUID:
    if not isinstance(value, str):
        raise unlike(value, "uuid")
    try:
        return UUID(value)
    except ValueError:
        raise Misfit("the text is no UUID") from None


def _time(read: Callable[[str], int | None], number: Convert) -> Convert:
    def time(value: Any) -> Any:
        if isinstance(value, str):
            found = read(value)
            if found is None:
                raise Misfit("the text is no such time, or is finer than the schema's unit")
            value = found
        return number(value)

    return time
