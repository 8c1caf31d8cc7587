"""Avro: a payload's JSON as the values that the schema describes, written by confluent_kafka's serializer."""

from __future__ import annotations

import json
from typing import Any

import fastavro
from confluent_kafka.schema_registry import RegisteredSchema, Schema
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from fencepost.brokers.kafka.encoding.avro_values import Values
from fencepost.brokers.kafka.encoding.payload import Misfit, parsed
from fencepost.brokers.kafka.encoding.registry import OneVersion, Registry, serializing
from fencepost.errors import ConfigurationError
from fencepost.message import Stored


class Avro:
    """See Encoder."""

    content_type = "application/avro"

    def __init__(
        self, subject: str, latest: RegisteredSchema, version: str, registry: Registry, *, drops_unknown: bool
    ) -> None:
        self.version = version
        try:
            names: dict[str, Any] = {}
            root = _read(latest.schema, registry, names, set())
            self._convert = Values(names, drops_unknown=drops_unknown).converter(root)
        except (ValueError, TypeError, LookupError, fastavro.schema.SchemaParseException) as error:
            raise ConfigurationError(f"{version} is no Avro schema that can be used: {error}") from None
        self._serialize: Any = AvroSerializer(
            OneVersion(registry, latest),
            to_dict=lambda boxed, _: boxed[0],  # a payload may be null, and is no tombstone then
            conf=serializing(subject),
        )

    def encode(self, message: Stored) -> bytes:
        context = SerializationContext(message.topic, MessageField.VALUE)
        try:
            body: bytes = self._serialize((self._convert(parsed(message)),), context)
        except RecursionError:
            raise Misfit("the payload is nested too deeply") from None
        except (ValueError, TypeError, OverflowError, SerializationError) as error:
            raise Misfit(f"it cannot be written: {type(error).__name__}") from error
        return body


def _read(schema: Schema, registry: Registry, names: dict[str, Any], seen: set[tuple[str, int]]) -> Any:
    """A schema with all that it refers to, whose types are put into ``names`` first."""
    for reference in schema.references or ():
        place = (str(reference.subject), int(reference.version or 0))
        if place not in seen:
            seen.add(place)
            _read(registry.version(*place, None).schema, registry, names, seen)
    text = schema.schema_str or ""
    return fastavro.parse_schema(json.loads(text if text.lstrip()[:1] in tuple('{["') else json.dumps(text)), names)
