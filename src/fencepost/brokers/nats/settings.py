"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from fencepost.brokers.nats.subjects import shape_fault, subject_fault
from fencepost.errors import ConfigurationError
from fencepost.plugins import suggestion

_STREAM_NAME_FORBIDDEN = set(">*. /\\\t\r\n")
BATCH_MAX = 999
"""The server takes 1,000 messages per atomic batch unless it is told otherwise; the receipt is one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set in ``[broker]`` besides the URL.

    ``stream`` takes the messages. ``subjects`` are taken by it from the start ("orders.>"); the subject of any other
    topic is added when it is first seen. ``subject_prefix`` stands before each topic. ``replicas`` and
    ``duplicate_window_s`` count when the stream is created. ``batch_max`` is one less than the server's own limit.
    ``domain`` is a JetStream domain, ``inbox_prefix`` where answers are received. ``credentials``, ``nkey_seed`` and
    the TLS settings are paths of files.
    """

    stream: str = "FENCEPOST"
    subjects: tuple[str, ...] = ()
    subject_prefix: str = ""
    replicas: int = 1
    duplicate_window_s: float = 120.0
    batch_max: int = BATCH_MAX
    domain: str = ""
    inbox_prefix: str = "_INBOX"
    user: str = ""
    password: str = ""
    token: str = ""
    credentials: str = ""
    nkey_seed: str = ""
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""

    @property
    def tls(self) -> bool:
        """True where a TLS setting is given."""
        return bool(self.tls_ca or self.tls_cert or self.tls_key)

    @property
    def api(self) -> str:
        """The first part of the subjects of the JetStream API."""
        return f"$JS.{self.domain}.API" if self.domain else "$JS.API"


def read(given: Mapping[str, object]) -> Settings:
    """The settings. Raises ConfigurationError for a name that is not known or a value that cannot be meant, or where a
    file is not there.
    """
    settings, errors = parse(given)
    for error in errors.values():
        raise error
    for name in ("credentials", "nkey_seed", "tls_ca", "tls_cert", "tls_key"):
        path = getattr(settings, name)
        if path and not Path(path).is_file():
            raise ConfigurationError(f"there is no file {path!r}, which {name} names", remedy="check the path")
    return settings


def parse(given: Mapping[str, object]) -> tuple[Settings, dict[str, ConfigurationError]]:
    """The settings, and what cannot be used of them and why, by name. At files it does not look: who only creates
    tables, on another machine, may have none.
    """
    values: dict[str, object] = {}
    errors: dict[str, ConfigurationError] = {}
    for name, value in given.items():
        try:
            values[name] = _value(name, value)
        except ConfigurationError as error:
            errors[name] = error
    settings = Settings(**values)  # type: ignore[arg-type]
    return settings, errors | {name: error for name, error in _unfit(settings) if name in values}


def _value(name: str, value: object) -> object:
    known = [f.name for f in fields(Settings)]
    if name not in known:
        raise ConfigurationError(f"the NATS broker has no setting {name!r}", remedy=suggestion(name, known))
    return _READERS.get(name, _text)(name, value)


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):  # an environment variable that looks like a number
        return str(value)
    raise _wrong(name, value, "a text")


def _count(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise _wrong(name, value, "a whole number above 0")


def _seconds(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise _wrong(name, value, "a number of seconds above 0")


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(text.strip() for text in value.split(",") if text.strip())
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return tuple(value)
    raise _wrong(name, value, 'a list of texts such as ["orders.>", "payments"]')


_READERS: dict[str, Callable[[str, object], object]] = {
    "subjects": _texts,
    "replicas": _count,
    "batch_max": _count,
    "duplicate_window_s": _seconds,
}


def _wrong(name: str, value: object, wanted: str) -> ConfigurationError:
    return ConfigurationError(f"the NATS setting {name} = {value!r} is not usable", remedy=f"it must be {wanted}")


def _unfit(settings: Settings) -> Iterator[tuple[str, ConfigurationError]]:
    """What cannot be meant, by the name of a setting."""
    if not settings.stream or _STREAM_NAME_FORBIDDEN & set(settings.stream):
        yield "stream", _wrong("stream", settings.stream, "a name without blanks, dots, slashes, * and >")
    for subject in settings.subjects:
        if fault := subject_fault(subject, wildcards=True):
            yield "subjects", _wrong("subjects", subject, f"a list of subjects; this one {fault}")
    prefix, inbox = settings.subject_prefix, settings.inbox_prefix
    if prefix and (fault := subject_fault(f"{prefix}topic")):
        wanted = f'the beginning of a subject ("shop."); this one {fault}'
        yield "subject_prefix", _wrong("subject_prefix", prefix, wanted)
    if fault := shape_fault(inbox):
        wanted = f'the beginning of a subject ("_INBOX"); this one {fault}'
        yield "inbox_prefix", _wrong("inbox_prefix", inbox, wanted)
    if bool(settings.tls_cert) != bool(settings.tls_key):
        given = "tls_cert" if settings.tls_cert else "tls_key"
        yield given, ConfigurationError("tls_cert and tls_key belong together", remedy="set both or none")
