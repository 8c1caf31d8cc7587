"""How a broker plug-in reads its own settings: a frozen dataclass of them, and every mistake by the setting's name.

::

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings(settings.Settings):
        title = "Acme"

        prefix: str = ""
        durable: bool = True
        batch_max: int = settings.setting(500, settings.whole(1, 1_000))

    def broker(options):
        return AcmeBroker(options.url, Settings.read(options.settings))

    refused = settings.refusing(Settings, Address.of)

The type says how a setting is read, where it is ``str``, ``bool``, ``int`` (above 0) or ``float`` (seconds above 0),
or that or None; ``setting`` and ``table`` name another reader. What is left out of the ``repr`` is shown in no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeGuard, TypeVar

from fencepost.errors import ConfigurationError, MissingExtra
from fencepost.words import as_written, suggestion

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Given:
    """What was written for a setting. ``place`` is how errors call it: "the Acme setting prefix"."""

    place: str
    value: object
    is_secret: bool = False

    def wrong(self, wanted: str) -> ConfigurationError:
        """Why it is not usable: it must be what is ``wanted``."""
        shown = "***" if self.is_secret else as_written(self.value)
        return ConfigurationError(f"{self.place} = {shown} is not usable", remedy=f"it must be {wanted}")


Reader = Callable[[Given], object]
"""What was given as the value of the setting. Raises ConfigurationError."""


def text(given: Given) -> str:
    """A text."""
    if isinstance(given.value, str):
        return given.value
    if _is_whole(given.value):  # an environment variable that looks like a number
        return str(given.value)
    raise given.wrong("a text")


def path(given: Given) -> str:
    """The path of a file, which ``Settings.read`` looks for."""
    return text(given)


def texts(wanted: str) -> Callable[[Given], tuple[str, ...]]:
    """A list of texts, or one with commas between them. ``wanted`` says so with an example."""

    def reader(given: Given) -> tuple[str, ...]:
        if isinstance(given.value, str):
            return tuple(each.strip() for each in given.value.split(",") if each.strip())
        if isinstance(given.value, list | tuple) and all(isinstance(each, str) for each in given.value):
            return tuple(given.value)
        raise given.wrong(wanted)

    return reader


def flag(given: Given) -> bool:
    """True or false."""
    if isinstance(given.value, bool):
        return given.value
    raise given.wrong("true or false")


def count(given: Given) -> int:
    """A whole number above 0."""
    if _is_whole(given.value) and given.value > 0:
        return given.value
    raise given.wrong("a whole number above 0")


def whole(low: int, high: int) -> Callable[[Given], int]:
    """A whole number from ``low`` to ``high``."""

    def reader(given: Given) -> int:
        if _is_whole(given.value) and low <= given.value <= high:
            return given.value
        raise given.wrong(f"a whole number from {low:,} to {high:,}")

    return reader


def seconds(given: Given) -> float:
    """A number of seconds above 0."""
    if (_is_whole(given.value) or isinstance(given.value, float)) and given.value > 0:
        return float(given.value)
    raise given.wrong("a number of seconds above 0")


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


_BY_TYPE: Mapping[str, Reader] = {"bool": flag, "float": seconds, "int": count, "str": text}


@dataclass(frozen=True, slots=True)
class _How:
    """How a setting is read. ``example`` and ``alone`` are those of a table."""

    reader: Reader
    example: str | None = None
    alone: str | None = None


def setting(default: T, reader: Reader, *, secret: bool = False) -> T:
    """A setting with a reader of its own."""
    return field(default=default, repr=not secret, metadata={"how": _How(reader)})


def table(reader: Reader, *, example: str = "", alone: str | None = None, secret: bool = False) -> Any:
    """Settings "NAME.KEY", from keys to values. NAME by itself is that of the key ``alone``; or it is refused, and what
    ``example`` says is wanted instead.
    """
    return field(default_factory=dict, repr=not secret, metadata={"how": _How(reader, example, alone)})


def problems(checks: Iterable[tuple[str, Callable[[], object]]]) -> dict[str, ConfigurationError]:
    """What checks raise, by the names that stand before them."""
    errors: dict[str, ConfigurationError] = {}
    for name, check in checks:
        try:
            check()
        except ConfigurationError as error:
            errors[name] = error
    return errors


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a plug-in; a subclass has one field for each, all with defaults."""

    title: ClassVar[str]
    """How people call the plug-in."""

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Self:
        """The settings. Raises the first ConfigurationError: for a name that is not known, a value that cannot be
        meant, a file that is not there.
        """
        settings, errors = cls.parse(given)
        for error in errors.values():
            raise error
        for each in fields(cls):
            file = getattr(settings, each.name)
            if file and _how(each).reader is path and not Path(file).is_file():
                raise ConfigurationError(f"there is no file {file!r}, which {each.name} names", remedy="check the path")
        return settings

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> tuple[Self, dict[str, ConfigurationError]]:
        """The settings, and what cannot be used of them and why, by name. At files it does not look: who only creates
        tables, on another machine, may have none.
        """
        values: dict[str, Any] = {}
        errors = problems((name, partial(cls._take, name, value, values)) for name, value in given.items())
        settings = cls(**values)
        for name, why in settings.unfit():
            if name in given and name not in errors:
                errors[name] = cls._given(name, given[name]).wrong(why) if isinstance(why, str) else why
        return settings, errors

    def unfit(self) -> Iterator[tuple[str, str | ConfigurationError]]:
        """What shows only now: names, each with what the value must be, or with the error."""
        yield from ()

    @classmethod
    def _given(cls, name: str, value: object) -> Given:
        found = _found(cls, name)
        return Given(f"the {cls.title} setting {name}", value, is_secret=found is not None and not found.repr)

    @classmethod
    def _take(cls, name: str, value: object, values: dict[str, Any]) -> None:
        found, key = _found(cls, name), name.partition(".")[2]
        if found is None:
            what = f"the {cls.title} broker has no setting {name!r}"
            raise ConfigurationError(what, remedy=suggestion(name, _names(cls)))
        how, given = _how(found), cls._given(name, value)
        if how.example is None:
            values[name] = how.reader(given)
        elif key or how.alone is not None:
            values.setdefault(found.name, {})[key or how.alone] = how.reader(given)
        else:
            raise given.wrong(how.example)


def _how(found: Field[Any]) -> _How:
    given: _How | None = found.metadata.get("how")
    if given is not None:
        return given
    name = found.type.__name__ if isinstance(found.type, type) else str(found.type)
    return _How(_BY_TYPE[name.removesuffix(" | None")])


def _found(kind: type[Settings], name: str) -> Field[Any] | None:
    """The field of a name; what has a dot in it is a key of a table."""
    head, dot, _ = name.partition(".")
    return next((f for f in fields(kind) if f.name == head and (not dot or _how(f).example is not None)), None)


def _names(kind: type[Settings]) -> Iterator[str]:
    for each in fields(kind):
        yield each.name
        if _how(each).alone is not None:
            yield f"{each.name}.TOPIC"


def refusing(
    kind: type[Settings], check_url: Callable[[str], object]
) -> Callable[[str, Mapping[str, object]], dict[str, ConfigurationError]]:
    """The function ``refused`` of a plug-in: what cannot be used of the URL ("url"), for which ``check_url`` raises
    ConfigurationError, and of the settings, and why.
    """

    def refused(url: str, settings: Mapping[str, object]) -> dict[str, ConfigurationError]:
        found = problems([("url", partial(check_url, url))])
        if isinstance(found.get("url"), MissingExtra):
            found.clear()  # it is told when it is needed
        return found | kind.parse(settings)[1]

    return refused
