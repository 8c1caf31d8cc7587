"""The settings of a Kafka broker: the URL, our own settings, and librdkafka's options for each kind of client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from fencepost.brokers.kafka.encoding import settings as encoding
from fencepost.brokers.kafka.options import SECRET
from fencepost.envelope import Format
from fencepost.errors import ConfigurationError
from fencepost.ports import BrokerOptions, Lane
from fencepost.servers import plain, split
from fencepost.settings import problems
from fencepost.words import as_written, suggestion

Options = dict[str, str | int]

RECEIPTS_PREFIX = "fencepost.receipts."
"""What the names of topics with receipts begin with, unless the configuration names another."""

OWN_SETTINGS = ("partitioner", "partitions", "receipts_topic", "replication_factor", *encoding.NAMES)
"""``receipts_topic``: the compacted topic of the receipts (default "fencepost.receipts.<relay>"). ``partitions`` and
``replication_factor`` of topics that are created (default -1: as the broker is configured). ``partitioner``: where keys
go (default "murmur2_random", as Java's clients do). The rest: see ``encoding.NAMES``."""

_PARTITIONERS = ("murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a")

# The guarantee rests on these: they are set by us, or must keep their defaults.
_TAKEN = {
    "bootstrap.servers",
    "delivery.report.only.error",
    "enable.auto.commit",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "isolation.level",
    "message.send.max.retries",
    "metadata.broker.list",
    "request.required.acks",
    "transactional.id",
}
_TAKEN_PREFIXES = ("test.", "plugin.")

# What a client that does not send messages understands too; it would warn of the rest.
_SHARED_PREFIXES = (
    "api.version.",
    "broker.",
    "client.",
    "enable.metrics.",
    "enable.sasl.",
    "enable.ssl.",
    "https.",
    "log.",
    "metadata.",
    "receive.",
    "reconnect.",
    "resolve.",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
    "topic.metadata.",
)

_URL = "write kafka://host1:9092,host2:9092"
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\])(:[0-9]{1,5})?\Z")

_MESSAGE_BYTES_MAX = 1_000_000
_TRANSACTION_S_MAX = 900.0
"""Kafka's own limit (transaction.max.timeout.ms) where nobody changed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Checked settings. ``shared`` are options of every client, ``sending`` those of producers only."""

    servers: str
    shared: Mapping[str, str | int] = field(repr=False)
    sending: Mapping[str, str | int] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    own_receipts_topic: str | None
    partitioner: str
    partitions: int
    replication_factor: int
    timeout_s: float
    encoders: encoding.EncoderSettings | None
    """None where payloads go as they are."""

    def receipts_topic(self, lane: Lane) -> str:
        """The topic of the lane's receipts; the lane's index is the partition."""
        return self.own_receipts_topic or f"{RECEIPTS_PREFIX}{lane.relay}"

    @property
    def message_bytes_max(self) -> int:
        """The largest message (key, value, headers, framing) that the producer takes, in bytes."""
        return int(self.sending.get("message.max.bytes", _MESSAGE_BYTES_MAX))

    def producer(self, transactional_id: str, batch_bytes: int | None = None) -> Options:
        """The options of a producer of transactions. ``batch_bytes`` limits what is sent in one piece."""
        timeout_ms = int(self.timeout_s * 1000)
        options: Options = {
            **self._client(),
            "compression.type": "lz4",
            "linger.ms": 5,  # every batch ends with a flush, which does not wait for it: fewer, larger pieces
            "queue.buffering.max.messages": 1_000_000,
            "topic.metadata.propagation.max.ms": min(5000, timeout_ms),
            # An owner that vanished and has no successor holds back readers for this long.
            "transaction.timeout.ms": int(min(2 * self.timeout_s, _TRANSACTION_S_MAX) * 1000),
            "message.timeout.ms": int(min(self.timeout_s, _TRANSACTION_S_MAX) * 1000),
            **self.sending,
            "partitioner": self.partitioner,
            "transactional.id": transactional_id,
            "enable.idempotence": "true",
            "acks": "all",
            "delivery.report.only.error": True,  # confluent_kafka reads it itself, and takes no text
        }
        if batch_bytes is not None:
            options["batch.size"] = batch_bytes
        return options

    def consumer(self) -> Options:
        """The options of the consumer that reads receipts. It joins no group."""
        return {
            **self._client(),
            "group.id": "fencepost",
            "isolation.level": "read_committed",
            "enable.partition.eof": "true",
            "enable.auto.commit": "false",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            "fetch.error.backoff.ms": 50,
        }

    def admin(self) -> Options:
        """The options of the client that looks after topics."""
        return self._client()

    def _client(self) -> Options:
        return {
            "client.id": "fencepost",
            "socket.nagle.disable": "true",
            "log.connection.close": "false",  # brokers close idle connections; that is no news
            "enable.metrics.push": "false",
            **self.shared,
            "bootstrap.servers": self.servers,
        }

    def hide(self, text: str) -> str:
        """The text without any secret of these settings."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def parse(options: BrokerOptions) -> Settings:
    """Check and sort the settings. Raises ConfigurationError, which never repeats a secret."""
    for error in wrong(options.url, options.settings).values():
        raise error
    ours, given = _parted(options.settings)
    own = {name: given.pop(name) for name in OWN_SETTINGS if name in given}
    native = {name: _native(name, value) for name, value in given.items()}
    shared = {n: v for n, v in native.items() if n.startswith(_SHARED_PREFIXES)}
    return Settings(
        servers=_servers(options.url),
        shared=shared,
        sending={n: v for n, v in native.items() if n not in shared},
        secrets=tuple(str(v) for n, v in native.items() if SECRET.search(n) and str(v)),
        own_receipts_topic=_receipts_topic(own),
        partitioner=_partitioner(own),
        partitions=_count(own, "partitions"),
        replication_factor=_count(own, "replication_factor"),
        timeout_s=options.timeout_s,
        encoders=_encoders(ours, options),
    )


def _encoders(ours: Mapping[str, object], options: BrokerOptions) -> encoding.EncoderSettings | None:
    encoders = encoding.parse(ours, options.timeout_s)
    if encoders is not None and options.form is Format.CLOUDEVENTS_STRUCTURED:
        raise ConfigurationError(
            f'encoders and format = "{options.form.value}" exclude each other: that body is JSON, and no schema of a'
            " registry describes it",
            remedy='leave format out, or write "cloudevents-binary", "plain" or "debezium"',
        )
    return encoders


def wrong(url: str, settings: Mapping[str, object]) -> dict[str, ConfigurationError]:
    """What cannot be used of the URL ("url") and the settings, by name; no error repeats a secret."""
    ours, given = _parted(settings)
    checks = ((name, partial(_checked, name, value)) for name, value in given.items())
    return problems([("url", partial(_servers, url)), *checks]) | encoding.wrong(ours)


def natives(settings: Mapping[str, object]) -> dict[str, str | int]:
    """librdkafka's own options among the settings, as it reads them, but for those that are ``wrong``."""
    _, given = _parted(settings)
    names = given.keys() - _OWN.keys() - problems((n, partial(_native, n, v)) for n, v in given.items()).keys()
    return {name: _native(name, value) for name, value in given.items() if name in names}


def _checked(name: str, value: object) -> object:
    return _OWN[name]({name: value}) if name in _OWN else _native(name, value)


def _servers(url: str) -> str:
    scheme, _, rest = url.partition("://")
    if "@" in rest:
        raise ConfigurationError("a Kafka URL with a user in it", remedy="set sasl.username and sasl.password instead")
    servers, _, options = rest.partition("?")
    hosts = servers.rstrip("/").split(",")
    if scheme != "kafka":
        raise ConfigurationError("the URL is not that of a Kafka", remedy=_URL)
    if "/" in servers.rstrip("/"):
        raise ConfigurationError("the URL of a Kafka has no path, and this one has", remedy=_URL)
    for host in hosts:
        if not _HOST.match(host) or split(f"//{host}") is None:
            raise ConfigurationError(f"{plain(host)!r} is not the address of a Kafka", remedy=_URL)
    if options:
        name = options.partition("=")[0]
        remedy = f"{_URL}; options are settings of their own, below url (docs/kafka.md)"
        raise ConfigurationError(f"the URL of a Kafka has no options, and this one has {name!r}", remedy=remedy)
    return ",".join(hosts)


def flat(settings: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every setting. TOML reads ``security.protocol = "SSL"`` as a table in a table; here both spellings are one."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _parted(settings: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """What is about encoders, and the rest."""
    every = dict(flat(settings))
    ours = {name: value for name, value in every.items() if encoding.is_ours(name)}
    return ours, {name: value for name, value in every.items() if name not in ours}


def _native(name: str, value: object) -> str | int:
    if "." not in name:
        raise ConfigurationError(
            f"the Kafka broker has no setting {name!r}",
            remedy=f"{suggestion(name, OWN_SETTINGS)} and librdkafka's options with a dot (security.protocol)",
        )
    if name in _TAKEN or name.startswith(_TAKEN_PREFIXES):
        raise ConfigurationError(
            f"the Kafka option {name!r} cannot be set: the guarantee rests on it", remedy="leave it out"
        )
    if name == "message.max.bytes" and not str(value).isdecimal():
        raise ConfigurationError(f"the Kafka option {name!r} is {as_written(value)}", remedy="write a number of bytes")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return value
    if isinstance(value, float):
        return f"{value:g}"
    raise ConfigurationError(
        f"the Kafka option {name!r} is a {type(value).__name__}", remedy="write text, a number or true/false"
    )


def _receipts_topic(own: Mapping[str, object]) -> str | None:
    name = own.get("receipts_topic")
    if name is None:
        return None
    if not isinstance(name, str) or not is_topic(name):
        raise ConfigurationError(f"receipts_topic = {as_written(name)} is not usable", remedy=TOPIC_RULE)
    return name


def _partitioner(own: Mapping[str, object]) -> str:
    name = own.get("partitioner", _PARTITIONERS[0])
    if name not in _PARTITIONERS:
        raise ConfigurationError(
            f"the partitioner {as_written(name)} is not known", remedy=f"known are {', '.join(_PARTITIONERS)}"
        )
    return str(name)


def _count(own: Mapping[str, object], name: str) -> int:
    value = own.get(name, -1)
    if isinstance(value, bool) or not isinstance(value, int) or not (value == -1 or value > 0):
        raise ConfigurationError(
            f"{name} = {as_written(value)} is not usable",
            remedy="write a number from 1, or -1 for the broker's default",
        )
    return value


_OWN: Mapping[str, Callable[[Mapping[str, object]], object]] = {
    "partitioner": _partitioner,
    "partitions": lambda own: _count(own, "partitions"),
    "receipts_topic": _receipts_topic,
    "replication_factor": lambda own: _count(own, "replication_factor"),
}

TOPIC_RULE = "1 to 249 characters of A-Z a-z 0-9 . _ - are, except for . and .. alone"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


def is_topic(name: str) -> bool:
    """True where Kafka allows the name."""
    return _TOPIC.match(name) is not None and name not in {".", ".."}
