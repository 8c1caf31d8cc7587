"""What Protobuf's mapping of JSON makes of values, checked and said in our words before Google's reader gets them.

That reader is lenient where a value would change without a word (whole numbers that a double cannot hold, bytes whose
text is no base64), and its errors repeat values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseError

from fencepost.brokers.kafka.encoding.payload import NO_NUMBERS, Misfit, as_double, exact, under, unlike, whole

_WELL_KNOWN = "google.protobuf."
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}\Z")
_PLACE = re.compile(r'.* at "?([\w.\[\]]+?)"?\.?\Z', re.DOTALL)

_WHOLE: Mapping[int, tuple[str, range]] = {
    FieldDescriptor.TYPE_INT32: ("int32", range(-(2**31), 2**31)),
    FieldDescriptor.TYPE_SINT32: ("sint32", range(-(2**31), 2**31)),
    FieldDescriptor.TYPE_SFIXED32: ("sfixed32", range(-(2**31), 2**31)),
    FieldDescriptor.TYPE_UINT32: ("uint32", range(2**32)),
    FieldDescriptor.TYPE_FIXED32: ("fixed32", range(2**32)),
    FieldDescriptor.TYPE_INT64: ("int64", range(-(2**63), 2**63)),
    FieldDescriptor.TYPE_SINT64: ("sint64", range(-(2**63), 2**63)),
    FieldDescriptor.TYPE_SFIXED64: ("sfixed64", range(-(2**63), 2**63)),
    FieldDescriptor.TYPE_UINT64: ("uint64", range(2**64)),
    FieldDescriptor.TYPE_FIXED64: ("fixed64", range(2**64)),
}


class Values:
    """Prepares values for json_format. Raises Misfit, which says where."""

    def __init__(self, *, drops_unknown: bool) -> None:
        self._drops_unknown = drops_unknown

    def of_message(self, value: Any, kind: Descriptor) -> Any:
        """A value of a message's type."""
        if kind.full_name.startswith(_WELL_KNOWN):
            return _plain(value)
        if type(value) is not dict:
            raise unlike(value, f"the message {kind.full_name}")
        fields = {field.json_name: field for field in kind.fields} | dict(kind.fields_by_name)
        return {name: under(name, self._of_field, item, fields.get(name)) for name, item in value.items()}

    def _of_field(self, value: Any, field: FieldDescriptor | None) -> Any:
        if field is None:
            if self._drops_unknown:
                return _plain(value)
            raise Misfit("the schema has no such field")
        if value is None:
            return None  # stands for a field that is not set
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            if not isinstance(value, dict):
                raise unlike(value, "a map")
            of_values = inner.fields_by_name["value"]
            return {key: under(key, self._single, item, of_values) for key, item in value.items()}
        if not _is_repeated(field):
            return self._single(value, field)
        if not isinstance(value, list):
            raise unlike(value, "a repeated field")
        return [under(place, self._single, item, field) for place, item in enumerate(value)]

    def _single(self, value: Any, field: FieldDescriptor) -> Any:
        if field.message_type is not None:
            return self.of_message(value, field.message_type)
        if field.type in _WHOLE:
            return whole(value, *_WHOLE[field.type])
        return _SCALARS[field.type](value, field)


def misfit_of(error: ParseError) -> Misfit:
    """What json_format refuses besides. It says what value it was, which is left out here."""
    found = _PLACE.match(str(error))
    misfit = Misfit("it does not fit the schema by Protobuf's mapping of JSON")
    return misfit.under(found[1]) if found else misfit


def _is_repeated(field: FieldDescriptor) -> bool:
    """Older versions of the library know the label only, newer ones warn of it."""
    known: bool = field.is_repeated if hasattr(field, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED
    return known


def _real(value: Any, field: FieldDescriptor) -> Any:
    if value in NO_NUMBERS:
        return value
    number = exact(value)
    if number is None:
        raise unlike(value, "a number")
    return float(number) if field.type == FieldDescriptor.TYPE_FLOAT else as_double(number)


def _boolean(value: Any, _field: FieldDescriptor) -> bool:
    if not isinstance(value, bool):
        raise unlike(value, "bool")
    return value


def _string(value: Any, _field: FieldDescriptor) -> str:
    if not isinstance(value, str):
        raise unlike(value, "string")
    return value


def _bytes(value: Any, _field: FieldDescriptor) -> str:
    if not isinstance(value, str):
        raise unlike(value, "bytes")
    if not _BASE64.match(value):
        raise Misfit("the text is not base64, as which bytes are written in JSON")
    return value


def _enum(value: Any, field: FieldDescriptor) -> Any:
    if type(value) is not int and not isinstance(value, str):
        raise unlike(value, "an enum")
    if isinstance(value, str) and value not in field.enum_type.values_by_name:
        raise Misfit("the enum of the schema has no such value")
    return value


def _group(_value: Any, _field: FieldDescriptor) -> Any:
    raise Misfit("the schema has a group, which JSON cannot say")


_SCALARS: Mapping[int, Callable[[Any, FieldDescriptor], Any]] = {
    FieldDescriptor.TYPE_DOUBLE: _real,
    FieldDescriptor.TYPE_FLOAT: _real,
    FieldDescriptor.TYPE_BOOL: _boolean,
    FieldDescriptor.TYPE_STRING: _string,
    FieldDescriptor.TYPE_BYTES: _bytes,
    FieldDescriptor.TYPE_ENUM: _enum,
    FieldDescriptor.TYPE_GROUP: _group,
}


def _plain(value: Any) -> Any:
    """Numbers with a point as doubles, all the way down; the rest as it is."""
    if isinstance(value, Decimal):
        return as_double(value)
    if isinstance(value, list):
        return [under(place, _plain, item) for place, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: under(key, _plain, item) for key, item in value.items()}
    return value
