"""JSON Schema: the payload is checked, and sent byte for byte as it was added, behind the number of its schema."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka.schema_registry import RegisteredSchema
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from jsonschema import SchemaError, ValidationError
from jsonschema.validators import validator_for

from fencepost.brokers.kafka.encoding.payload import Misfit, parsed
from fencepost.brokers.kafka.encoding.registry import OneVersion, Registry, serializing
from fencepost.errors import ConfigurationError
from fencepost.message import Stored

_NAMES_ONLY = ("additionalProperties", "dependentRequired", "required", "unevaluatedProperties")
"""Keywords whose message tells names of fields, and no value."""


class JsonSchema:
    """See Encoder."""

    content_type = "application/json"

    def __init__(self, subject: str, latest: RegisteredSchema, version: str, registry: Registry) -> None:
        self.version = version
        _check(latest, version)
        self._serialize: Any = JSONSerializer(
            None,
            OneVersion(registry, latest),
            to_dict=lambda boxed, _: boxed[0],  # a payload may be null, and is no tombstone then
            conf=serializing(subject),
            json_encode=lambda _: b"",
        )

    def encode(self, message: Stored) -> bytes:
        parsed(message)  # what is read next is less exact, which matters to nobody: it is checked and forgotten
        payload = message.payload or b""
        context = SerializationContext(message.topic, MessageField.VALUE)
        try:
            frame: bytes = self._serialize((json.loads(payload),), context)
        except SerializationError as error:
            raise _misfit(error) from None
        return frame + payload


def _check(latest: RegisteredSchema, version: str) -> None:
    try:
        schema = json.loads(latest.schema.schema_str or "")
        validator_for(schema).check_schema(schema)
    except (ValueError, SchemaError) as error:
        raise ConfigurationError(f"{version} is no JSON Schema: {error}") from None


def _misfit(error: SerializationError) -> Misfit:
    """The library tells the broken rule only; which field broke it stands in the error behind."""
    cause = error.__context__
    if not isinstance(cause, ValidationError):
        return Misfit(str(error))
    names = cause.validator in _NAMES_ONLY
    misfit = Misfit(cause.message if names else f"breaks the schema's {cause.validator!r}")
    for step in reversed(cause.absolute_path):
        misfit.under(step)
    return misfit
