"""From a version of a subject to the encoder for it."""

from __future__ import annotations

from confluent_kafka.schema_registry import RegisteredSchema

from fencepost.brokers.kafka.encoding.avro import Avro
from fencepost.brokers.kafka.encoding.encoders import Encoder
from fencepost.brokers.kafka.encoding.json_schema import JsonSchema
from fencepost.brokers.kafka.encoding.protobuf import Protobuf
from fencepost.brokers.kafka.encoding.registry import Registry
from fencepost.errors import ConfigurationError


def name_of(subject: str, latest: RegisteredSchema) -> str:
    """A version in words. A subject that was deleted and made again may count its versions from 1 again."""
    return f"version {latest.version} of {subject} (schema {latest.schema_id})"


def encoder(kind: str, subject: str, latest: RegisteredSchema, registry: Registry, *, drops_unknown: bool) -> Encoder:
    """The encoder of a kind. Raises ConfigurationError where the schema is of no use."""
    version = name_of(subject, latest)
    _check_rules(latest, version)
    if kind == "avro":
        return Avro(subject, latest, version, registry, drops_unknown=drops_unknown)
    if kind == "protobuf":
        return Protobuf(subject, latest, version, registry, drops_unknown=drops_unknown)
    return JsonSchema(subject, latest, version, registry)


def _check_rules(latest: RegisteredSchema, version: str) -> None:
    """Rules may encrypt a field: what does not run them must not send."""
    rules = latest.schema.rule_set
    if rules is not None and (rules.domain_rules or getattr(rules, "encoding_rules", None)):
        raise ConfigurationError(
            f"{version} has rules of a data contract, which the relay does not run",
            remedy="register a version without rules, or let the application encode the payload itself",
        )
