"""From JSON to Avro's values, type by type: the rules that docs/kafka.md tells.

A schema becomes functions, once; a function takes one value of JSON and returns what is written, or raises Misfit. The
types of a schema refer to each other by name, also in circles, so names are looked up when a value comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from fencepost.brokers.kafka.encoding.avro_scalars import scalar
from fencepost.brokers.kafka.encoding.avro_times import TIMES
from fencepost.brokers.kafka.encoding.payload import Misfit, kind_of, under, unlike

Convert = Callable[[Any], Any]

_ABSENT = object()


class _Field(NamedTuple):
    name: str
    convert: Convert
    default: Any
    """What stands where the JSON has no such field, _ABSENT where it must have one."""


class _Branch(NamedTuple):
    name: str
    convert: Convert
    natural: Callable[[Any], bool]
    """Whether a value of JSON is of this type at first sight."""


class Values:
    """Converters of one schema. ``names`` are its named types, as fastavro parsed them."""

    def __init__(self, names: Mapping[str, Any], *, drops_unknown: bool) -> None:
        self._names, self._drops_unknown = names, drops_unknown
        self._made: dict[str, Convert] = {}

    def converter(self, schema: Any) -> Convert:
        """The function for a schema. Raises ValueError or LookupError for one that is not to be understood."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._named(schema) if schema in self._names else scalar(schema, {})
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.converter(kind)
        if kind in ("record", "error", "enum", "fixed"):
            return self._named(schema["name"])
        if kind == "array":
            return _array(self.converter(schema["items"]))
        if kind == "map":
            return _map(self.converter(schema["values"]))
        return self._named(kind) if kind in self._names else scalar(kind, schema)

    def _named(self, name: str) -> Convert:
        if name not in self._made:
            self._made[name] = partial(self._later, name)  # a type may hold itself
            self._made[name] = self._define(self._names[name])
        return self._made[name]

    def _later(self, name: str, value: Any) -> Any:
        return self._made[name](value)

    def _define(self, schema: Mapping[str, Any]) -> Convert:
        if schema["type"] == "enum":
            return _enum(frozenset(schema["symbols"]))
        if schema["type"] == "fixed":
            return scalar("fixed", schema)
        return self._record(schema)

    # -- records -------------------------------------------------------------------------------------------------------

    def _record(self, schema: Mapping[str, Any]) -> Convert:
        fields = [self._field(field) for field in schema["fields"]]
        known, drops_unknown = frozenset(field.name for field in fields), self._drops_unknown

        def convert(value: Any) -> dict[str, Any]:
            if type(value) is not dict:
                raise unlike(value, "a record")
            if not (drops_unknown or value.keys() <= known):
                raise Misfit("the schema has no such field").under(min(value.keys() - known))
            return {field.name: _of_field(field, value) for field in fields}

        return convert

    def _field(self, field: Mapping[str, Any]) -> _Field:
        schema = field["type"]
        default: Any = _ABSENT
        if "default" in field:
            default = self._default(schema, field["default"])
        elif isinstance(schema, list) and "null" in schema:
            default = None
        return _Field(field["name"], self.converter(schema), default)

    def _default(self, schema: Any, default: Any) -> Any:
        """A schema's default, which is JSON by Avro's own rules: bytes are characters, a union is of its first type."""
        if isinstance(schema, list):
            if schema[0] != "null":
                return self._name_of(schema[0]), self._default(schema[0], default)
            if default is not None:
                raise ValueError("the default of a union is not of its first type")
            return None
        whole = self._names.get(schema, schema) if isinstance(schema, str) else schema
        kind = whole if isinstance(whole, str) else whole["type"]
        if kind in ("bytes", "fixed"):
            return default.encode("latin-1")
        if kind == "array":
            return [self._default(whole["items"], item) for item in default]
        if kind == "map":
            return {key: self._default(whole["values"], item) for key, item in default.items()}
        if kind in ("record", "error"):
            return {
                f["name"]: self._default(f["type"], default.get(f["name"], f.get("default"))) for f in whole["fields"]
            }
        return self._default(kind, default) if isinstance(kind, dict | list) else default

    # -- unions --------------------------------------------------------------------------------------------------------

    def _union(self, schemas: list[Any]) -> Convert:
        nullable = "null" in schemas
        branches = [self._branch(schema) for schema in schemas if schema != "null"]

        def convert(value: Any) -> Any:
            if value is None and nullable:
                return None
            tagged = _tagged(branches, value)
            if tagged is not None:
                return tagged
            return _chosen(branches, value)

        return convert

    def _branch(self, schema: Any) -> _Branch:
        kind = schema if isinstance(schema, str) else schema["type"]
        whole = self._names.get(kind, schema)
        if isinstance(whole, dict):
            kind = whole["type"]
        logical = whole.get("logicalType") if isinstance(whole, dict) else None
        natural = _AT_FIRST_SIGHT[kind]
        if logical == "decimal":
            natural = _is_number
        elif logical in TIMES:
            natural = _never
        return _Branch(self._name_of(schema), self.converter(schema), natural)

    def _name_of(self, schema: Any) -> str:
        """What fastavro calls a type of a union."""
        if isinstance(schema, str):
            return schema
        return str(schema["name"] if "name" in schema else schema["type"])


def _of_field(field: _Field, value: Mapping[str, Any]) -> Any:
    if field.name not in value:
        if field.default is _ABSENT:
            raise Misfit("it is missing").under(field.name)
        return field.default
    return under(field.name, field.convert, value[field.name])


def _array(convert: Convert) -> Convert:
    def array(value: Any) -> list[Any]:
        if type(value) is not list:
            raise unlike(value, "an array")
        return [under(place, convert, item) for place, item in enumerate(value)]

    return array


def _map(convert: Convert) -> Convert:
    def mapping(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise unlike(value, "a map")
        return {key: under(key, convert, item) for key, item in value.items()}

    return mapping


def _enum(symbols: frozenset[str]) -> Convert:
    def enum(value: Any) -> str:
        if not isinstance(value, str):
            raise unlike(value, "an enum")
        if value not in symbols:
            raise Misfit("the enum of the schema has no such symbol")
        return value

    return enum


def _never(_value: Any) -> bool:
    return False


def _is_number(value: Any) -> bool:
    return type(value) is int or isinstance(value, Decimal)


_AT_FIRST_SIGHT: Mapping[str, Callable[[Any], bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int,
    "long": lambda value: type(value) is int,
    "float": lambda value: isinstance(value, Decimal),
    "double": lambda value: isinstance(value, Decimal),
    "string": lambda value: isinstance(value, str),
    "enum": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "map": lambda value: isinstance(value, dict),
    "record": lambda value: isinstance(value, dict),
    "error": lambda value: isinstance(value, dict),
    "bytes": _never,
    "fixed": _never,
}


def _tagged(branches: list[_Branch], value: Any) -> tuple[str, Any] | None:
    """The value of Avro's own JSON encoding, {"TYPE": value}; None where it is none, or is none of that type."""
    if type(value) is dict and len(value) == 1:
        ((name, inner),) = value.items()
        for branch in branches:
            if branch.name == name:
                try:
                    return name, branch.convert(inner)
                except Misfit:
                    return None
    return None


def _chosen(branches: list[_Branch], value: Any) -> tuple[str, Any]:
    """The first type that the value fits; before all others those that it is of at first sight."""
    misfits: list[Misfit] = []
    likely = [branch for branch in branches if branch.natural(value)]
    for branch in (*likely, *(branch for branch in branches if not branch.natural(value))):
        try:
            return branch.name, branch.convert(value)
        except Misfit as misfit:
            misfits.append(misfit)
    if len(misfits) == 1 or len(likely) == 1:
        raise misfits[0]
    raise Misfit(f"{kind_of(value)} fits no type of the union ({', '.join(branch.name for branch in branches)})")
