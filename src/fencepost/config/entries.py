"""Where each value of a configuration was written: the TOML file and the environment as one list of entries."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fencepost.config.records import BROKER_NAME_MEANT, NAMED, SECTIONS, has_settings, record_of, rules
from fencepost.config.secrets import looks_secret
from fencepost.errors import ConfigurationError
from fencepost.words import suggestion

ENV_PREFIX = "FENCEPOST_"
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?\Z")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)\Z")


@dataclass(frozen=True, slots=True)
class Entry:
    """One value and the place where it was written, in words."""

    section: str
    key: str
    value: object
    place: str

    @property
    def where(self) -> str:
        """Section, key and place, for an error."""
        return f"[{self.section}] {self.key} ({self.place})"


def from_file(path: Path) -> list[Entry]:
    """The entries of a TOML file. Raises ConfigurationError where it cannot be read."""
    text = _read(path)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(
            f"{path} is not valid TOML: {error}", remedy="texts need quotes, every section is written [section]"
        ) from error
    lines = _line_numbers(text)
    return from_tree(tree, lambda section, name: _place(path, lines, section, name))


def from_tree(tree: Mapping[str, object], place: Callable[[str, str], str]) -> list[Entry]:
    """The entries of sections that hold keys. ``place`` says where a section's key was written."""
    return [
        Entry(section, name, value, place(section, name))
        for section, table in _sections(tree)
        for name, value in (list(_flat(table)) if isinstance(table, dict) else []) or _itself(section, table)
    ]


def _sections(tree: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    """Those of which there may be several under their own names: "brokers.archive"."""
    for section, table in tree.items():
        if section in NAMED and isinstance(table, dict):
            yield from ((f"{section}.{name}", inner) for name, inner in table.items())
        else:
            yield section, table


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no file {path}", remedy="run `fencepost init` to write one") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not text in UTF-8", remedy="save it as UTF-8") from error
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error.strerror}", remedy="check its path and its rights"
        ) from error


def _itself(section: str, table: object) -> list[tuple[str, object]]:
    """What is not a table with something in it, where that is a mistake."""
    return [] if record_of(section) and isinstance(table, dict) else [("", table)]


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, object]]:
    """Nested tables as keys joined by dots."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _line_numbers(text: str) -> dict[str, int]:
    """Dotted key -> line: the parser of the standard library does not tell. A text of several lines may hide a key."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = _unquoted(header[1]) + "."
        elif assignment := _KEY.match(line):
            found.setdefault(table + _unquoted(assignment[1]), number)
    return found


def _unquoted(dotted: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", dotted))


def _place(path: Path, lines: Mapping[str, int], section: str, name: str) -> str:
    dotted = f"{section}.{name}".rstrip(".")
    while dotted not in lines and "." in dotted:  # an inline table stands in the line of its own key
        dotted = dotted.rpartition(".")[0]
    return f"{path} line {lines[dotted]}" if dotted in lines else str(path)


def from_environment(env: Mapping[str, str]) -> tuple[list[Entry], list[ConfigurationError]]:
    """The entries of FENCEPOST_SECTION__KEY variables; a further __ stands for the dot of a plug-in's own key."""
    entries: list[Entry] = []
    errors: list[ConfigurationError] = []
    for name, value in sorted(env.items()):
        if not name.startswith(ENV_PREFIX):
            continue
        section, separator, rest = name[len(ENV_PREFIX) :].lower().partition("__")
        if separator and section in NAMED:
            name_of_one, separator, rest = rest.partition("__")
            section = f"{section}.{name_of_one}"
        if separator and rest:
            entries.append(_from_variable(name, section, rest.replace("__", "."), value))
        elif intended := _intended(section):
            errors.append(
                ConfigurationError(f"environment variable {name} means nothing", remedy=f"did you mean {intended}?")
            )
    return entries, errors


def _intended(section: str) -> str | None:
    """What a variable without a key was meant to be, as far as that is known."""
    family, dot, name = section.partition(".")
    if family in NAMED:
        key = next(iter(rules(f"{family}.x")))
        return f"{ENV_PREFIX}{family}__{name if dot else 'name'}__{key}".upper()
    if section in SECTIONS:
        return f"{ENV_PREFIX}{section}__{next(iter(rules(section)))}".upper()
    return _INTENDED.get(section)


# Only exact slips of a known name are refused: an orchestrator adds variables of its own, such as FENCEPOST_RELAY_PORT.
_INTENDED = {f"{s}_{k}": f"{ENV_PREFIX}{s.upper()}__{k.upper()}" for s in SECTIONS for k in rules(s)}


def _from_variable(name: str, section: str, key: str, text: str) -> Entry:
    rule = rules(section).get(key)
    kind = rule.kind if rule else None if looks_secret(key) else object
    return Entry(section, key, _converted(text, kind), f"environment variable {name}")


def _converted(text: str, kind: type | None) -> object:
    """Variables are text. One that does not read as the kind stays text, and is refused later in the ordinary way."""
    if kind in (bool, object) and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind in (int, float, object) and _WHOLE_NUMBER.match(text):
        return int(text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            return text
    return text


def unknown(entries: Iterable[Entry]) -> list[ConfigurationError]:
    """What is written in a section or under a key that does not exist."""
    return [error for entry in entries if (error := _unknown(entry)) is not None]


def _unknown(entry: Entry) -> ConfigurationError | None:
    if (family := entry.section.partition(".")[0]) in NAMED and record_of(entry.section) is None:
        what = f"[{entry.section}] ({entry.place}) is no section"
        return ConfigurationError(what, remedy=f"write [{family}.NAME], the name being {BROKER_NAME_MEANT}")
    if record_of(entry.section) is None and not entry.key and not isinstance(entry.value, dict):
        what = f"{entry.section!r} stands outside of a section ({entry.place})"
        return ConfigurationError(what, remedy=f"put it below one of {', '.join(f'[{s}]' for s in SECTIONS)}")
    if record_of(entry.section) is None:
        what = f"unknown section [{entry.section}] ({entry.place})"
        return ConfigurationError(what, remedy=suggestion(entry.section, [*SECTIONS, *NAMED]))
    if not entry.key:
        return ConfigurationError(
            f"{entry.section!r} is not a section ({entry.place})", remedy=f"write [{entry.section}]"
        )
    if entry.key not in rules(entry.section) and not has_settings(entry.section):
        return ConfigurationError(f"unknown key {entry.where}", remedy=suggestion(entry.key, rules(entry.section)))
    return None
