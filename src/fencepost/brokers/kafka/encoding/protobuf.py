"""Protobuf: a payload's JSON by Protobuf's own mapping, written by confluent_kafka's serializer."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from confluent_kafka.schema_registry import RegisteredSchema, Schema
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from google.protobuf import descriptor_pool, json_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from fencepost.brokers.kafka.encoding.payload import Misfit, parsed
from fencepost.brokers.kafka.encoding.protobuf_values import Values, misfit_of
from fencepost.brokers.kafka.encoding.registry import SERIALIZED, OneVersion, Registry, serializing
from fencepost.errors import ConfigurationError
from fencepost.message import Stored

_WELL_KNOWN = ("google/", "confluent/")
_SERIALIZED_REMEDY = (
    "register the schema in serialized form, as confluent_kafka's ProtobufSerializer does: this registry keeps text as"
    " text, and only Confluent's makes a descriptor of it"
)


class Protobuf:
    """See Encoder. A message is of the type that its own type names, else of the first one in the schema."""

    content_type = "application/protobuf"

    def __init__(
        self, subject: str, latest: RegisteredSchema, version: str, registry: Registry, *, drops_unknown: bool
    ) -> None:
        self.version, self._subject, self._drops_unknown = version, subject, drops_unknown
        self._values = Values(drops_unknown=drops_unknown)
        self._one = OneVersion(registry, latest)
        self._file = _file(latest.schema, version, registry)
        self._types = list(self._file.message_types_by_name.values())
        if not self._types:
            raise ConfigurationError(f"{version} defines no message")
        self._serializers: dict[str, tuple[type[Any], Any]] = {}

    def encode(self, message: Stored) -> bytes:
        kind, serialize = self._serializer(message.type)
        try:
            value = self._values.of_message(parsed(message), kind.DESCRIPTOR)
            filled = json_format.ParseDict(value, kind(), self._drops_unknown, self._file.pool)
            body: bytes = serialize(filled, SerializationContext(message.topic, MessageField.VALUE))
        except RecursionError:
            raise Misfit("the payload is nested too deeply") from None
        except json_format.ParseError as error:
            raise misfit_of(error) from None
        except (ValueError, TypeError, AttributeError, EncodeError, SerializationError) as error:
            raise Misfit(f"it cannot be written: {type(error).__name__}") from error
        return body

    def _serializer(self, named: str) -> tuple[type[Any], Any]:
        """The class of messages, and what writes them."""
        chosen = next((kind for kind in self._types if kind.full_name == named), self._types[0])
        if chosen.full_name not in self._serializers:
            made = GetMessageClass(chosen)
            serializer: Any = ProtobufSerializer(made, self._one, serializing(self._subject))
            self._serializers[chosen.full_name] = (made, serializer)
        return self._serializers[chosen.full_name]


# -- the schema --------------------------------------------------------------------------------------------------------


def _file(schema: Schema, version: str, registry: Registry) -> FileDescriptor:
    try:
        pool = DescriptorPool()
        _add_referred(schema, registry, pool, set())
        proto = _descriptor(schema, "default")
        _add_well_known(proto, pool)
        pool.AddSerializedFile(proto.SerializeToString())
        found: FileDescriptor = pool.FindFileByName(proto.name)
    except (binascii.Error, DecodeError, UnicodeEncodeError):
        raise ConfigurationError(f"{version} came as text", remedy=_SERIALIZED_REMEDY) from None
    except (TypeError, KeyError) as error:
        raise ConfigurationError(f"{version} is no Protobuf schema that can be used: {error}") from None
    return found


def _descriptor(schema: Schema, name: str) -> FileDescriptorProto:
    text = schema.schema_str or ""
    proto = FileDescriptorProto.FromString(base64.b64decode(text.encode("ascii"), validate=True))
    proto.name = name
    return proto


def _add_referred(schema: Schema, registry: Registry, pool: DescriptorPool, seen: set[str]) -> None:
    for reference in schema.references or ():
        name = str(reference.name)
        if name in seen or name.startswith(_WELL_KNOWN):
            continue
        seen.add(name)
        referred = registry.version(str(reference.subject), int(reference.version or 0), SERIALIZED).schema
        _add_referred(referred, registry, pool, seen)
        proto = _descriptor(referred, name)
        _add_well_known(proto, pool)
        pool.AddSerializedFile(proto.SerializeToString())


def _add_well_known(proto: FileDescriptorProto, pool: DescriptorPool) -> None:
    """Files of Google's and Confluent's, which no registry keeps; they came with the library."""
    for name in proto.dependency:
        if name.startswith(_WELL_KNOWN):
            known = descriptor_pool.Default().FindFileByName(name)
            copy = FileDescriptorProto()
            known.CopyToProto(copy)
            _add_well_known(copy, pool)
            pool.AddSerializedFile(copy.SerializeToString())
