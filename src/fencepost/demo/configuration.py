"""The configuration of a demonstration: somebody's servers, or its own, and names that nothing else has."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from fencepost import plugins
from fencepost.config import Config
from fencepost.config.records import BrokerConfig
from fencepost.config.secrets import looks_secret
from fencepost.ports import BrokerOptions

TTL_S = 2.0
_VARIABLE = "FENCEPOST_DEMO_{}"

_Section = dict[str, object]

# What the demonstration says itself. Leases stand beside its outbox, whose tables it makes.
_OWN = {
    "relay": {"name", "source"},
    "database": {"url", "prefix"},
    "broker": {"url", "create", "receipts_topic", "partitions", "stream", "subjects", "subject_prefix"},
    "lease": {"url", "ttl_s"},
}


class Setup:
    """``run_id`` and ``purpose`` make the names. ``database`` and ``broker`` are URLs; ``config`` says the rest where
    it is given, of the sections in ``used``; ``settings`` are further keys of ``[broker]``.
    """

    def __init__(
        self,
        run_id: str,
        database: str,
        broker: str,
        config: Config | None,
        used: set[str],
        purpose: str = "demo",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.topic = f"fencepost-{purpose}-{run_id}"
        self._sections: dict[str, _Section] = {name: _taken(config, name) if name in used else {} for name in _OWN}
        self._sections["relay"]["name"] = f"{purpose}-{run_id}"
        self._sections["database"] |= {"url": database, "prefix": f"fencepost_{purpose}_{run_id}_"}
        self._sections["broker"] |= {"url": broker, **(settings or {})}
        self._sections["lease"]["ttl_s"] = TTL_S
        self._sections["log"] = {"format": "json"}

    def broker(self) -> BrokerOptions:
        """What the plug-in of the broker that is spoken to would be told."""
        known = {field.name for field in dataclasses.fields(BrokerConfig)}
        settings = {name: v for name, v in self._sections["broker"].items() if name not in known}
        url = plugins.spoken(str(self._sections["broker"]["url"]))
        return BrokerOptions(url=url, source="/demo", settings=settings)

    def written(self, settings: Mapping[str, object]) -> tuple[str, dict[str, str]]:
        """A configuration file with further keys of ``[broker]``, and the environment that it needs.

        What may be secret stands in the environment only.
        """
        env: dict[str, str] = {}
        sections = self._sections | {"broker": {**self._sections["broker"], **settings}}
        blocks = []
        for section, values in sections.items():
            lines = [f"{_key(key)} = {_value(key, value, env)}" for key, value in values.items()]
            blocks.append("\n".join([f"[{section}]", *lines, ""]))
        return "\n".join(blocks), env


def _taken(config: Config | None, section: str) -> _Section:
    """What a configuration says in a section, and the demonstration does not."""
    if config is None:
        return {}
    record = getattr(config, section)
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    values |= values.pop("settings", {})
    return {name: value for name, value in values.items() if name not in _OWN[section] and value is not None}


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() else json.dumps(name)


def _value(key: str, value: object, env: dict[str, str]) -> str:
    """A value as TOML."""
    if isinstance(value, str) and (looks_secret(key) or "://" in value or "$" in value):
        name = _VARIABLE.format(len(env) + 1)
        env[name] = value
        return f'"${{{name}}}"'
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
