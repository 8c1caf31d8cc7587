"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from fencepost.brokers.http.routes import url_fault
from fencepost.brokers.http.signature import key_of
from fencepost.errors import ConfigurationError
from fencepost.plugins import suggestion

_BY_TOPIC = ("targets", "signing_secrets", "bearer_token")
_FILES = ("tls_ca", "tls_cert", "tls_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set in ``[broker]`` besides the URL.

    ``targets.PATTERN`` is the URL for the topics of a pattern. ``signing_secrets`` sign every message, the first of
    them being the newest; ``bearer_token`` is sent with every message; both may be given for a PATTERN of topics
    instead. ``connections`` are open to one target at most. ``publish_s`` is how long the messages of a batch may take
    together, None for most of what the lease allows. ``proxy`` is a URL. The TLS settings are paths of files.
    """

    targets: Mapping[str, str] = field(default_factory=dict)
    signing_secrets: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict, repr=False)
    bearer_token: Mapping[str, str] = field(default_factory=dict, repr=False)
    connections: int = 16
    batch_max: int = 250
    publish_s: float | None = None
    proxy: str = field(default="", repr=False)
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""


def read(given: Mapping[str, object]) -> Settings:
    """The settings. Raises ConfigurationError for a name that is not known or a value that cannot be meant, or where a
    file is not there.
    """
    settings, errors = parse(given)
    for error in errors.values():
        raise error
    for name in _FILES:
        path = getattr(settings, name)
        if path and not Path(path).is_file():
            raise ConfigurationError(f"there is no file {path!r}, which {name} names", remedy="check the path")
    return settings


def parse(given: Mapping[str, object]) -> tuple[Settings, dict[str, ConfigurationError]]:
    """The settings, and what cannot be used of them and why, by name. At files it does not look."""
    values: dict[str, object] = {}
    by_topic: dict[str, dict[str, object]] = {name: {} for name in _BY_TOPIC}
    errors: dict[str, ConfigurationError] = {}
    for name, value in given.items():
        table, _, pattern = name.partition(".")
        try:
            if table in by_topic and (pattern or table != "targets"):
                by_topic[table][pattern or "*"] = _READERS[table](name, value)
            else:
                values[name] = _value(name, value)
        except ConfigurationError as error:
            errors[name] = error
    settings = Settings(**values, **by_topic)  # type: ignore[arg-type]
    return settings, errors | {name: error for name, error in _unfit(settings) if name in values}


def _value(name: str, value: object) -> object:
    known = [f.name for f in fields(Settings)]
    if name not in known:
        near = [f"{table}.TOPIC" for table in _BY_TOPIC]
        raise ConfigurationError(
            f"the HTTP broker has no setting {name!r}", remedy=suggestion(name, [*known, *near[1:]])
        )
    if name == "targets":
        raise _wrong(name, value, 'a table such as [broker.targets] "orders.*" = "https://..."')
    return _READERS.get(name, _text)(name, value)


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise _wrong(name, value, "a text")


def _count(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise _wrong(name, value, "a whole number above 0")


def _seconds(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise _wrong(name, value, "a number of seconds above 0")


def _target(name: str, value: object) -> str:
    url = _text(name, value)
    if fault := url_fault(url):
        raise ConfigurationError(f"the HTTP setting {name}: {fault.what}", remedy=fault.remedy)
    return url


def _secrets(name: str, value: object) -> tuple[bytes, ...]:
    """The keys. What is wrong with one is told without showing it."""
    texts = value.split(",") if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not texts:
        raise ConfigurationError(f"the HTTP setting {name} is no list of texts", remedy='write ["whsec_..."]')
    try:
        return tuple(key_of(str(text).strip()) for text in texts)
    except ValueError as error:
        raise ConfigurationError(
            f"a secret of the HTTP setting {name} is not usable: {error}",
            remedy='write "whsec_" and at least 24 bytes as base64; several with commas, the newest first',
        ) from None


def _token(name: str, value: object) -> str:
    text = str(value)
    if text.isascii() and text.isprintable() and " " not in text and text:
        return text
    raise ConfigurationError(
        f"the HTTP setting {name} cannot be sent in a header", remedy="a token has printable ASCII without blanks"
    )


def _proxy(name: str, value: object) -> str:
    url = _text(name, value)
    if fault := url_fault(url, template=False):
        raise ConfigurationError(f"the HTTP setting {name}: {fault.what}", remedy="write http://host:3128")
    return url


_READERS: dict[str, Callable[[str, object], object]] = {
    "targets": _target,
    "signing_secrets": _secrets,
    "bearer_token": _token,
    "connections": _count,
    "batch_max": _count,
    "publish_s": _seconds,
    "proxy": _proxy,
}


def _wrong(name: str, value: object, wanted: str) -> ConfigurationError:
    return ConfigurationError(f"the HTTP setting {name} = {value!r} is not usable", remedy=f"it must be {wanted}")


def _unfit(settings: Settings) -> Iterator[tuple[str, ConfigurationError]]:
    """What cannot be meant, by the name of a setting."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        given = "tls_cert" if settings.tls_cert else "tls_key"
        yield given, ConfigurationError("tls_cert and tls_key belong together", remedy="set both or none")
