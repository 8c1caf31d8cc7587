"""An inbox table in a database of a test's own, of each kind."""

from pathlib import Path

import pytest

from tests.brokers.sql_kit import Inbox


@pytest.fixture
def on_postgresql(fresh_database: str) -> Inbox:
    return Inbox(fresh_database)


@pytest.fixture
def on_mariadb(fresh_mariadb: str) -> Inbox:
    return Inbox(fresh_mariadb)


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Inbox:
    return Inbox(f"sqlite:///{tmp_path / 'inbox.db'}")
