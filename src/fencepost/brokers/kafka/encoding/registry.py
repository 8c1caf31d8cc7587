"""The schema registry: what of its client is used here, and what its answers mean. Every call may block."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaRegistryClient
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

from fencepost.brokers.kafka.encoding.faults import REGISTRY_ERRORS, fault, words
from fencepost.brokers.kafka.encoding.settings import EncoderSettings
from fencepost.errors import ConfigurationError

T = TypeVar("T")

_NOT_TAKEN: tuple[type[Exception], ...] = (OSError, *REGISTRY_ERRORS)
"""What the client raises of its options; OSError of files that are not there."""

TYPES = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
"""What the registry calls the schemas of our encoders."""

SERIALIZED = "serialized"
"""The format in which Protobuf schemas are asked for: a descriptor in base64 rather than text."""


class Registry:
    """One registry. Raises ConfigurationError where its client does not take the options.

    After ``close`` the next call connects again.
    """

    def __init__(self, settings: EncoderSettings) -> None:
        self._settings = settings
        self._made: Any = self._make()

    def check(self) -> None:
        """Ask it something that every user may ask. Raises FixError where it is no registry, or refuses us."""
        self._ask(self._client.get_schema_types, "connecting")

    def latest(self, subject: str, kind: str) -> RegisteredSchema:
        """The latest version of a subject. Raises SchemaMissing, another FixError, or RetryError."""

        def ask() -> RegisteredSchema:
            self._client.clear_latest_caches()
            found: RegisteredSchema = self._client.get_latest_version(subject, form_of(kind))
            return found

        found = self._ask(ask, f"looking up the subject {subject}")
        # Registries leave the type out where it is Avro.
        given = found.schema.schema_type or "AVRO"
        if given != TYPES[kind]:
            raise ConfigurationError(
                f"the schema of the subject {subject} is {given}, and the encoder of its topic is {kind}",
                remedy="change the encoder in [broker.encoders], or the schema",
            )
        return found

    def version(self, subject: str, version: int, form: str | None) -> RegisteredSchema:
        """One version of a subject to which another schema refers. Kept for ever, since it never changes."""
        found: RegisteredSchema = self._ask(
            lambda: self._client.get_version(subject, version, True, form),
            f"looking up version {version} of {subject}",
        )
        return found

    def register(self, subject: str, kind: str, file: Path) -> None:
        """Register what is in a file, where it is not there yet. Raises FixError or RetryError."""
        schema = Schema(_written(file, kind), TYPES[kind])
        self._ask(lambda: self._client.register_schema(subject, schema), f"registering {file} as {subject}")

    def close(self) -> None:
        """Close the connections. Never raises."""
        client, self._made = self._made, None
        if client is not None:
            client.close()

    @property
    def _client(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> Any:
        settings = self._settings
        try:
            return SchemaRegistryClient(dict(settings.registry))
        except _NOT_TAKEN as error:
            raise ConfigurationError(
                f"the schema registry's client does not take the settings: {settings.hide(str(error))}",
                remedy="check those that begin with schema.registry.",
            ) from None

    def _ask(self, call: Callable[[], T], doing: str) -> T:
        try:
            return call()
        except REGISTRY_ERRORS as error:
            settings = self._settings
            raise fault(error, doing, settings.place, settings.hide(words(error))) from None


class OneVersion:
    """What a serializer sees of the registry: for it, the version that it was made for stays the latest.

    Serializer and schema change together then, and in between no look-up happens while messages are encoded.
    """

    def __init__(self, registry: Registry, latest: RegisteredSchema) -> None:
        self._registry, self._latest = registry, latest

    def get_latest_version(self, _subject: str, _form: str | None = None) -> RegisteredSchema:
        """The version that this was made of."""
        return self._latest

    def get_version(self, subject: str, version: int, _deleted: bool = False, form: str | None = None) -> Any:
        """A schema to which that version refers."""
        return self._registry.version(subject, version, form)

    def config(self) -> dict[str, Any]:
        """Nothing: this is for the executors of rules, of which there are none."""
        return {}


def serializing(subject: str) -> dict[str, Any]:
    """The options of a serializer that looks at one subject, and never registers anything."""
    return {
        "auto.register.schemas": False,
        "use.latest.version": True,
        "subject.name.strategy": lambda _context, _record: subject,
    }


def form_of(kind: str) -> str | None:
    """The format in which the schemas of an encoder are asked for."""
    return SERIALIZED if kind == "protobuf" else None


def _written(file: Path, kind: str) -> str:
    """A file with a schema as the registry takes it."""
    try:
        content = file.read_bytes()
        if kind != "protobuf" or file.suffix == ".proto":
            return content.decode("utf-8")
        (only,) = FileDescriptorSet.FromString(content).file
    except (OSError, ValueError, DecodeError) as error:
        raise ConfigurationError(
            f"the schema file {file} cannot be read: {error}",
            remedy="it must be text in UTF-8; or for Protobuf what protoc --descriptor_set_out writes of one file",
        ) from None
    return base64.b64encode(only.SerializeToString()).decode("ascii")
