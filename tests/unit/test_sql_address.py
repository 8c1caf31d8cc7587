"""URLs that a driver would take for something else, or refuse with a traceback."""

import pytest

from fencepost import plugins
from fencepost.errors import ConfigurationError
from fencepost.ports import DatabaseOptions, LeaseOptions
from fencepost.sql.address import check_ports, file_in


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/x",
        "postgresql://h:5432/x",
        "postgresql+asyncpg://u:p@h:5432,[::1]:5433,other/x?target_session_attrs=primary",
        "postgresql://u:50%2F50@h/x",
        "postgresql:///x?host=/run/postgresql",
    ],
)
def test_ports_that_are_numbers(url: str) -> None:
    check_ports(url)


@pytest.mark.parametrize("url", ["postgresql://h:port/x", "postgresql://h:0/x", "postgresql://a:1,b:65536/x"])
def test_a_port_that_is_none(url: str) -> None:
    with pytest.raises(ConfigurationError, match="no port"):
        plugins.load("database", "postgresql").source(DatabaseOptions(url=url))
    with pytest.raises(ConfigurationError, match="no port"):
        plugins.load("election", "postgresql").lease_store(LeaseOptions(url=url))


def test_a_password_with_a_slash_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_ports("postgresql://app:hunter22/x@h/x")
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("url", ["sqlite://var/shop.db", "sqlite://h/"])
def test_a_file_has_no_host(url: str) -> None:
    for make, options in (
        (plugins.load("database", "sqlite").source, DatabaseOptions(url=url)),
        (plugins.load("database", "sqlite").schema, DatabaseOptions(url=url)),
        (plugins.load("election", "sqlite").lease_store, LeaseOptions(url=url)),
    ):
        with pytest.raises(ConfigurationError, match="SQLite has none"):
            make(options)


def test_files() -> None:
    assert file_in("sqlite:///var/shop.db") == "var/shop.db"
    assert file_in("sqlite:////var/shop.db") == "/var/shop.db"
    assert file_in("sqlite://") == ""
