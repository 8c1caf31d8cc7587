"""Reading a configuration: find the file, lay the environment over it, check all, report every problem at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from fencepost import plugins
from fencepost.config import entries as written
from fencepost.config.entries import Entry
from fencepost.config.problems import raise_all
from fencepost.config.records import SECTIONS, Config, default_of, has_settings, required, rules
from fencepost.config.secrets import MASK, looks_secret
from fencepost.config.values import checked, expanded
from fencepost.errors import ConfigurationError

FILE_NAME = "fencepost.toml"
ENV_FILE = "FENCEPOST_CONFIG"

_Sections = dict[str, dict[str, Any]]


def load(file: Path | None, env: Mapping[str, str]) -> Config:
    """The configuration from ``file``, else the file that FENCEPOST_CONFIG names, else fencepost.toml where we are.

    FENCEPOST_SECTION__KEY variables come before the file and may be all there is. Raises ConfigurationError for one
    problem, ConfigurationErrors for several.
    """
    path = _find(file, env)
    from_file = written.from_file(path) if path else []
    from_env, errors = written.from_environment(env)
    entries = _merged(from_file, from_env)
    errors += written.unknown(entries)
    sections, wrong = _values(entries, env)
    errors += wrong + _missing(sections, entries, path) + _contradictions(sections) + _refused(sections, entries)
    raise_all(errors)
    return _config(sections, path, {entry.section: entry.place for entry in entries if entry.key == "url"})


def _find(file: Path | None, env: Mapping[str, str]) -> Path | None:
    if file is not None:
        return file
    if named := env.get(ENV_FILE):
        return Path(named)
    here = Path(FILE_NAME)
    return here if here.exists() else None


def _merged(from_file: Iterable[Entry], from_env: Iterable[Entry]) -> list[Entry]:
    return list({(entry.section, entry.key): entry for entry in (*from_file, *from_env)}.values())


def _values(entries: Iterable[Entry], env: Mapping[str, str]) -> tuple[_Sections, list[ConfigurationError]]:
    sections: _Sections = {name: {"settings": {}} if has_settings(name) else {} for name in SECTIONS}
    errors: list[ConfigurationError] = []
    for entry in entries:
        known = rules(entry.section) if entry.section in SECTIONS else {}
        if entry.key not in known and not (entry.key and entry.section in SECTIONS and has_settings(entry.section)):
            continue  # unknown, and reported as that
        try:
            value = checked(entry, known.get(entry.key), expanded(entry, env))
        except ConfigurationError as error:
            errors.append(error)
            continue
        section = sections[entry.section]
        (section if entry.key in known else section["settings"])[entry.key] = value
    return sections, errors


def _missing(sections: _Sections, entries: Iterable[Entry], path: Path | None) -> list[ConfigurationError]:
    was_written = {(entry.section, entry.key) for entry in entries}
    place = str(path) if path else f"there is no {FILE_NAME} here, and no variable of the environment says it"
    remedy = (
        f'add it to {path}: [{{}}] {{}} = "..."' if path else "run `fencepost init` to write one, or pass --config FILE"
    )
    return [
        ConfigurationError(f"[{section}] {key} is missing ({place})", remedy=remedy.format(section, key))
        for section in sections
        for key in required(section)
        if (section, key) not in was_written
    ]


def _contradictions(sections: _Sections) -> list[ConfigurationError]:
    relay = sections["relay"]
    base = relay.get("retry_base_s", default_of("relay", "retry_base_s"))
    cap = relay.get("retry_cap_s", default_of("relay", "retry_cap_s"))
    if base > cap:
        what = f"[relay] retry_base_s is {base:g} and retry_cap_s is {cap:g}"
        return [
            ConfigurationError(what, remedy="the first pause between two tries cannot be longer than the longest one")
        ]
    return []


def _refused(sections: _Sections, entries: Iterable[Entry]) -> list[ConfigurationError]:
    """What plug-ins say of their own keys. One without any is not loaded only to be asked."""
    by_key = {(entry.section, entry.key): entry for entry in entries}
    errors: list[ConfigurationError] = []
    for section, values in sections.items():
        url, settings = values.get("url"), values.get("settings")
        if url and settings:
            for key, error in plugins.refused(rules(section)["url"].plugin, url, settings).items():
                entry = by_key.get((section, key), by_key[section, "url"])
                errors.append(_placed(entry, settings.get(key), error))
    return errors


def _placed(entry: Entry, value: object, error: ConfigurationError) -> ConfigurationError:
    what = error.what
    if looks_secret(entry.key):
        what = what.replace(repr(value), MASK)
    return ConfigurationError(f"{entry.where}: {what}", remedy=error.remedy)


def _config(sections: _Sections, path: Path | None, places: Mapping[str, str]) -> Config:
    records = {name: cast("Any", record)(**sections[name]) for name, record in SECTIONS.items()}
    return Config(**records, file=path, places=places)
