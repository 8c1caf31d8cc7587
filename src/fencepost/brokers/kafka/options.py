"""What librdkafka itself says of its options, one by one and before a client is made of them: in the user's words.

It tells of an unknown name, of a value that is none of an option's, and of an alias under another name; it does not
tell which names there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from fencepost.brokers.kafka.faults import cause
from fencepost.errors import ConfigurationError
from fencepost.words import as_written, meant

KNOWN = (
    *("allow.auto.create.topics", "api.version.request", "batch.num.messages", "batch.size", "broker.address.family"),
    *("broker.address.ttl", "client.dns.lookup", "client.id", "client.rack", "compression.codec", "compression.level"),
    *("compression.type", "connections.max.idle.ms", "debug", "delivery.timeout.ms", "enable.metrics.push"),
    *("enable.ssl.certificate.verification", "linger.ms", "log.connection.close", "max.in.flight", "message.max.bytes"),
    *("message.timeout.ms", "metadata.max.age.ms", "queue.buffering.max.kbytes", "queue.buffering.max.messages"),
    *("queue.buffering.max.ms", "receive.message.max.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms"),
    *("request.timeout.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms", "sasl.kerberos.keytab"),
    *("sasl.kerberos.kinit.cmd", "sasl.kerberos.principal", "sasl.kerberos.service.name", "sasl.mechanism"),
    *("sasl.mechanisms", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config"),
    *("sasl.oauthbearer.extensions", "sasl.oauthbearer.method", "sasl.oauthbearer.scope"),
    *("sasl.oauthbearer.token.endpoint.url", "sasl.password", "sasl.username", "security.protocol"),
    *("socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails", "socket.nagle.disable"),
    *("socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms", "ssl.ca.location", "ssl.ca.pem"),
    *("ssl.certificate.location", "ssl.certificate.pem", "ssl.cipher.suites", "ssl.crl.location", "ssl.curves.list"),
    *("ssl.endpoint.identification.algorithm", "ssl.engine.location", "ssl.key.location", "ssl.key.password"),
    *("ssl.key.pem", "ssl.keystore.location", "ssl.keystore.password", "ssl.providers", "ssl.sigalgs.list"),
    *("statistics.interval.ms", "sticky.partitioning.linger.ms", "topic.metadata.propagation.max.ms"),
    *("topic.metadata.refresh.interval.ms", "transaction.timeout.ms"),
)
"""Names that somebody may have meant who wrote another one."""

_VALUES = {
    "broker.address.family": "any, v4 or v6",
    "compression.codec": "none, gzip, snappy, lz4 or zstd",
    "compression.type": "none, gzip, snappy, lz4 or zstd",
    "security.protocol": "plaintext, ssl, sasl_plaintext or sasl_ssl",
    "ssl.endpoint.identification.algorithm": "none or https",
}
_LISTED = "CONFIGURATION.md of librdkafka"

_NOBODYS = "fencepost.ends.here"
"""An option that there is not: with it no client is made, but what stands before it is looked at."""

_FILES = (".location", ".file", ".keytab")
_NO_FILE = dict.fromkeys(("ssl.ca.location", "https.ca.location"), ("", "probe"))

SECRET = re.compile(r"password|secret|token|key\.pem|oauthbearer|jaas")


def unusable(options: Mapping[str, str | int]) -> dict[str, ConfigurationError]:
    """What librdkafka does not take, by name. No error repeats a secret, also where it stands as another value."""
    secrets = {str(value) for name, value in options.items() if SECRET.search(name)}
    found = {name: _fault(name, value, hidden=str(value) in secrets) for name, value in options.items()}
    return {name: error for name, error in found.items() if error is not None}


def check_files(settings: Iterable[tuple[str, object]]) -> None:
    """Raise ConfigurationError for the first file that a setting names and that is not there, also one for the schema
    registry.
    """
    for name, value in settings:
        is_path = name.endswith(_FILES) and isinstance(value, str) and value not in _NO_FILE.get(name, ("",))
        if is_path and not Path(str(value)).exists():  # of authorities there may be a folder
            raise ConfigurationError(f"there is no file {value!r}, which {name} names", remedy="check the path")


def _fault(name: str, value: str | int, *, hidden: bool) -> ConfigurationError | None:
    said = _said(name, value)
    if f'"{_NOBODYS}"' in said:
        return None
    if said.startswith("No such configuration property"):
        near = meant(name, KNOWN)
        remedy = f"did you mean {near!r}? " if near else ""
        return ConfigurationError(f"Kafka has no option {name!r}", remedy=f"{remedy}{_LISTED} has all of them")
    shown = "***" if hidden else as_written(value)
    return ConfigurationError(f"the Kafka option {name} = {shown} is not usable", remedy=_wanted(name, said))


def _said(name: str, value: str | int) -> str:
    try:
        Producer({name: value, _NOBODYS: ""})
    except KafkaException as exception:
        return cause(exception).str()
    except (TypeError, AttributeError) as error:  # what the library for Python reads by itself
        return str(error)
    raise AssertionError(f"librdkafka knows {_NOBODYS}")


def _wanted(name: str, said: str) -> str:
    if limits := re.search(r"allowed range (-?\d+)\.\.(-?\d+)", said):
        return f"it must be from {limits[1]} to {limits[2]}"
    if "Expected bool" in said:
        return "it must be true or false"
    return f"it must be {_VALUES[name]}" if name in _VALUES else f"{_LISTED} says what it may be"
