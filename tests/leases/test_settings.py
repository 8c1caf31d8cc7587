"""What the lease stores refuse in their settings."""

import sys

import pytest

from fencepost import plugins
from fencepost.errors import ConfigurationError, MissingExtra
from fencepost.ports import LeaseOptions

URLS = {"memory": "memory://x", "sqlite": "sqlite:///x.db", "postgresql": "postgresql://x@127.0.0.1/x"}


@pytest.mark.parametrize("kind", URLS)
@pytest.mark.parametrize(
    ("settings", "said"),
    [({"session_evidense": "off"}, "session_evidense"), ({"session_evidence": "of"}, '"auto" or "off"')],
)
def test_an_unknown_setting_or_value(kind: str, settings: dict[str, object], said: str) -> None:
    options = LeaseOptions(url=URLS[kind], settings=settings)
    with pytest.raises(ConfigurationError, match=said):
        plugins.load("election", kind).lease_store(options)


def test_sqlite_has_no_schemas() -> None:
    with pytest.raises(ConfigurationError, match="schema"):
        plugins.load("election", "sqlite").lease_store(LeaseOptions(url=URLS["sqlite"], schema="app"))


def test_a_database_that_keeps_no_leases() -> None:
    with pytest.raises(ConfigurationError, match="'db2'"):
        plugins.load("election", "postgresql").lease_store(LeaseOptions(url="db2://x"))


@pytest.mark.parametrize(("kind", "library"), [("sqlite", "aiosqlite"), ("postgresql", "asyncpg")])
def test_a_missing_library_is_named_with_its_extra(kind: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=rf"{library}.*fencepost\[{kind}\]"):
        plugins.load("election", kind).lease_store(LeaseOptions(url=URLS[kind]))


def test_a_password_is_not_shown() -> None:
    from fencepost.elections.sql_kinds import database

    shown = database(LeaseOptions(url="postgresql+asyncpg://user:se%40cret@host/db?sslmode=require"))
    assert shown.place == "postgresql://user:***@host/db"
