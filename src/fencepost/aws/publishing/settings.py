"""The settings that SQS and SNS share, and how the plug-ins read theirs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, TypeVar

from fencepost.errors import ConfigurationError
from fencepost.plugins import suggestion

TOPIC = "{topic}"
FIFO_SUFFIX = ".fifo"
MESSAGE_BYTES_MAX = 262_144
"""What every server takes, of one message and of one request."""

_NAME = re.compile(r"[A-Za-z0-9_-]*\Z")
_DOT = re.compile(r"[A-Za-z0-9_-]{1,8}\Z")
_ACCOUNT = re.compile(r"(\d{12})?\Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be set in ``[broker]`` besides the URL, for both services.

    ``dot`` stands for each dot of a topic in names. ``account`` is the one that has the queues or topics, where that is
    another one than the relay's. ``message_bytes_max`` is the limit of a message and of a request. ``connections`` are
    used at once. A batch takes ``publish_s`` at most.
    """

    title: ClassVar[str]
    template_name: ClassVar[str]
    """The setting with the template of names."""
    name_characters_max: ClassVar[int]

    fifo: bool = True
    dot: str = "--"
    account: str = ""
    message_bytes_max: int = MESSAGE_BYTES_MAX
    connections: int = 16
    publish_s: float = 1.6

    @property
    def template(self) -> str:
        """The template of names, without the suffix of FIFO."""
        return str(getattr(self, self.template_name)).removesuffix(FIFO_SUFFIX)

    @property
    def by_topic(self) -> bool:
        """True where each topic has a place of its own."""
        return TOPIC in self.template


T = TypeVar("T", bound=Settings)


def read(kind: type[T], given: Mapping[str, object]) -> T:
    """The settings. Raises ConfigurationError for a name that is not known or a value that cannot be meant."""
    settings, errors = parse(kind, given)
    for error in errors.values():
        raise error
    return settings


def parse(kind: type[T], given: Mapping[str, object]) -> tuple[T, dict[str, ConfigurationError]]:
    """The settings, and what cannot be used of them and why, by name."""
    values: dict[str, object] = {}
    errors: dict[str, ConfigurationError] = {}
    for name, value in given.items():
        try:
            values[name] = _value(kind, name, value)
        except ConfigurationError as error:
            errors[name] = error
    settings = kind(**values)  # type: ignore[arg-type]
    return settings, errors | {name: error for name, error in _unfit(settings) if name in values}


def _value(kind: type[Settings], name: str, value: object) -> object:
    known = [f.name for f in fields(kind)]
    if name not in known:
        raise ConfigurationError(f"the {kind.title} broker has no setting {name!r}", remedy=suggestion(name, known))
    wanted, fits = _KINDS.get(name, _TEXT)
    if name == "account" and isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:012d}"  # an environment variable that looks like a number
    if not fits(value):
        raise _wrong(kind, name, value, wanted)
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


_TEXT: tuple[str, Callable[[object], bool]] = ("a text", lambda value: isinstance(value, str))
_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "fifo": ("true or false", lambda value: isinstance(value, bool)),
    "message_bytes_max": ("a whole number above 0", _is_count),
    "connections": ("a whole number above 0", _is_count),
    "publish_s": ("a number of seconds above 0", _is_seconds),
}


def _wrong(kind: type[Settings], name: str, value: object, wanted: str) -> ConfigurationError:
    what = f"the {kind.title} setting {name} = {value!r} is not usable"
    return ConfigurationError(what, remedy=f"it must be {wanted}")


def _unfit(settings: Settings) -> Iterator[tuple[str, ConfigurationError]]:
    """What cannot be meant, by the name of a setting."""
    kind, name = type(settings), settings.template_name
    given, rest = getattr(settings, name), settings.template.replace(TOPIC, "")
    if given.endswith(FIFO_SUFFIX) and not settings.fifo:
        what = f"the {kind.title} setting {name} = {given!r} is a name of FIFO, and fifo is false"
        yield name, ConfigurationError(what, remedy="set fifo = true, or leave .fifo out")
    elif not _NAME.match(rest) or not settings.template or len(rest) > settings.name_characters_max:
        yield name, _wrong(kind, name, given, f"a text of A-Z a-z 0-9 _ -, in which {TOPIC} may stand")
    if not _DOT.match(settings.dot):
        yield "dot", _wrong(kind, "dot", settings.dot, "1 to 8 characters of A-Z a-z 0-9 _ -")
    if not _ACCOUNT.match(settings.account):
        yield "account", _wrong(kind, "account", settings.account, "the 12 digits of an account")
