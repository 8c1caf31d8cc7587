"""Reading a configuration: find the file, lay the environment over it, check all, report every problem at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from fencepost import plugins
from fencepost.config import entries as written
from fencepost.config.entries import Entry
from fencepost.config.problems import raise_all
from fencepost.config.records import (
    NAMED,
    SECTIONS,
    TABLE_PREFIX,
    TABLE_PREFIX_MEANT,
    Config,
    default_of,
    has_settings,
    record_of,
    required,
    rules,
)
from fencepost.config.secrets import MASK, is_secret
from fencepost.config.values import checked, expanded
from fencepost.errors import ConfigurationError
from fencepost.existing import problems
from fencepost.routes import MAIN, unusable
from fencepost.words import suggestion

FILE_NAME = "fencepost.toml"
ENV_FILE = "FENCEPOST_CONFIG"

_NO_ROUTE = "add a section [routes.NAME] with topics and broker, or [relay] route, a function"

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
    sections, wrong = _checked(entries, lambda entry: expanded(entry, env))
    raise_all(errors + wrong + _missing(sections, entries, *_where_to_add(path)))
    return Config(**_records(sections), file=path, places=_places(entries))


def made(sections: Mapping[str, object], *, origin: str, places: Mapping[str, str] | None = None) -> Config:
    """The configuration that a program gives: sections that hold keys, None for a key that is not given.

    Nothing else is read, and ``${...}`` stays as it is. ``origin`` says in an error where it was written, ``places``
    the same for sections that come from elsewhere. Raises what ``load`` raises.
    """
    given = written.from_tree(sections, lambda section, _: (places or {}).get(section, origin))
    entries = [entry for entry in given if entry.value is not None]
    checked_sections, errors = _checked(entries, lambda entry: entry.value)
    remedy = f"""add it to {origin}: {{{{"{{}}": {{{{"{{}}": "..."}}}}}}}}"""
    raise_all(errors + _missing(checked_sections, entries, origin, remedy))
    return Config(**_records(checked_sections), origin=origin, places=_places(entries))


def _checked(entries: list[Entry], value_of: Callable[[Entry], object]) -> tuple[_Sections, list[ConfigurationError]]:
    """Every section with its checked values, and everything that is wrong but what is missing."""
    errors = written.unknown(entries)
    sections, wrong = _values(entries, value_of)
    return sections, errors + wrong + _contradictions(sections, entries) + _refused(sections, entries)


def _places(entries: Iterable[Entry]) -> dict[str, str]:
    return {entry.section: entry.place for entry in entries if entry.key == "url"}


def _find(file: Path | None, env: Mapping[str, str]) -> Path | None:
    if file is not None:
        return file
    if named := env.get(ENV_FILE):
        return Path(named)
    here = Path(FILE_NAME)
    return here if here.exists() else None


def _merged(from_file: Iterable[Entry], from_env: Iterable[Entry]) -> list[Entry]:
    return list({(entry.section, entry.key): entry for entry in (*from_file, *from_env)}.values())


def _values(
    entries: Iterable[Entry], value_of: Callable[[Entry], object]
) -> tuple[_Sections, list[ConfigurationError]]:
    sections: _Sections = {name: {"settings": {}} if has_settings(name) else {} for name in SECTIONS}
    errors: list[ConfigurationError] = []
    for entry in entries:
        if record_of(entry.section) is None:
            continue  # unknown, and reported as that
        section = sections.setdefault(entry.section, {"settings": {}} if has_settings(entry.section) else {})
        known = rules(entry.section)
        table, _, name = entry.key.partition(".")
        rule = known[table] if table in known and known[table].table else known.get(entry.key)
        if rule is None and not (entry.key and has_settings(entry.section)):
            continue
        try:
            value = checked(entry, rule, value_of(entry))
        except ConfigurationError as error:
            errors.append(error)
            continue
        if rule is None:
            section["settings"][entry.key] = value
        elif rule.table:
            section.setdefault(table, {})[name] = value
        else:
            section[entry.key] = value
    return sections, errors


def _where_to_add(path: Path | None) -> tuple[str, str]:
    """Where something is missing, and what to do about it."""
    if path:
        return str(path), f'add it to {path}: [{{}}] {{}} = "..."'
    place = f"there is no {FILE_NAME} here, and no variable of the environment says it"
    return place, "run `fencepost init` to write one, or pass --config FILE"


def _missing(sections: _Sections, entries: Iterable[Entry], place: str, remedy: str) -> list[ConfigurationError]:
    was_written = {(entry.section, entry.key) for entry in entries}
    return [
        ConfigurationError(f"[{section}] {key} is missing ({place})", remedy=remedy.format(section, key))
        for section in sections
        for key in required(section)
        if (section, key) not in was_written
    ]


def _contradictions(sections: _Sections, entries: Iterable[Entry]) -> list[ConfigurationError]:
    database = sections["database"]
    kept = [*_nothing_to_keep(database, entries), *_existing(sections, entries)]
    return [*_pauses(sections["relay"]), *_table_names(database, entries), *kept, *_routes(sections, entries)]


def _routes(sections: _Sections, entries: Iterable[Entry]) -> list[ConfigurationError]:
    """Routes that lead nowhere, and brokers that nothing leads to."""
    where = {(entry.section, entry.key): entry.where for entry in entries}
    brokers = [name.partition(".")[2] for name in sections if name.startswith("brokers.")]
    routes = {name: route for name, route in sections.items() if name.startswith("routes.")}
    errors = [error for name, route in routes.items() for error in _route(name, route, brokers, where)]
    if "route" not in sections["relay"]:
        used = {route.get("broker") for route in routes.values()}
        unused = [(f"brokers.{name}", "url") for name in brokers if name not in used]
        errors += [
            ConfigurationError(f"{where[url]}: nothing is sent there", remedy=_NO_ROUTE)
            for url in unused
            if url in where
        ]
    return errors


def _route(
    name: str, route: Mapping[str, Any], brokers: list[str], where: Mapping[tuple[str, str], str]
) -> Iterable[ConfigurationError]:
    broker = route.get("broker", MAIN)
    if broker not in (MAIN, *brokers):
        what = f"{where[name, 'broker']}: there is no section [brokers.{broker}]"
        yield ConfigurationError(what, remedy=suggestion(broker, [MAIN, *brokers]))
    if fault := unusable(route.get("topic", "")):
        yield ConfigurationError(f"{where[name, 'topic']}: {fault}", remedy="change the template")


def _existing(sections: _Sections, entries: Iterable[Entry]) -> list[ConfigurationError]:
    """A section without a place for what is missing has its first key's."""
    places = {entry.key: entry.place for entry in entries if entry.section == "existing"}
    if not places:
        return []
    database, first = sections["database"], next(iter(places.values()))
    found = problems(sections["existing"], settle=database.get("settle", "delete"), retention="retention_s" in database)
    return [
        ConfigurationError(f"[existing] {key} ({places.get(key, first)}) {what}", remedy=remedy)
        for key, what, remedy in found
    ]


def _nothing_to_keep(database: Mapping[str, Any], entries: Iterable[Entry]) -> list[ConfigurationError]:
    where = [entry.where for entry in entries if (entry.section, entry.key) == ("database", "retention_s")]
    if database.get("settle") == "mark":
        return []
    remedy = 'write settle = "mark" as well, or leave it out'
    return [ConfigurationError(f"{each}: settled rows are deleted at once", remedy=remedy) for each in where]


def _table_names(database: Mapping[str, Any], entries: Iterable[Entry]) -> list[ConfigurationError]:
    """What is a prefix of keys is not one of tables."""
    prefix, url = database.get("prefix", ""), database.get("url", "")
    if not prefix or not url or TABLE_PREFIX.match(prefix) or plugins.name_of("database", url) == "redis":
        return []
    where = [entry.where for entry in entries if (entry.section, entry.key) == ("database", "prefix")]
    return [ConfigurationError(f"{each} is {prefix!r}", remedy=f"write {TABLE_PREFIX_MEANT}") for each in where]


def _pauses(relay: Mapping[str, Any]) -> list[ConfigurationError]:
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
    if is_secret(entry.key, value):
        what = what.replace(repr(value), MASK)
    return ConfigurationError(f"{entry.where}: {what}", remedy=error.remedy)


def _records(sections: _Sections) -> dict[str, Any]:
    records = {name: cast("Any", record_of(name))(**values) for name, values in sections.items()}
    return {name: records[name] for name in SECTIONS} | {
        family: {name.partition(".")[2]: r for name, r in records.items() if name.startswith(f"{family}.")}
        for family in NAMED
    }
