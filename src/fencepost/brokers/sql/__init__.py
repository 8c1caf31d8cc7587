"""An inbox table as a broker: the messages become rows of a consumer's database, PostgreSQL, MariaDB or SQLite.

A batch and its receipt are one transaction there, which the lane's fence lets through or refuses: exactly-once. Oracle,
SQL Server and CockroachDB are served by the same statements, which are compiled for them and were never run there.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.brokers.sql.address import database_url
from fencepost.brokers.sql.broker import SqlBroker
from fencepost.brokers.sql.settings import parse
from fencepost.errors import ConfigurationError, MissingExtra
from fencepost.ports import Broker, BrokerOptions
from fencepost.sql.client import client


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as inbox+postgresql://user@host:5432/database.

    Raises ConfigurationError, or MissingExtra where the database's driver is not installed.
    """
    return SqlBroker(options)


def refused(url: str, settings: Mapping[str, object]) -> dict[str, ConfigurationError]:
    """What cannot be used of the URL ("url") and the settings, and why."""
    _, errors = parse(settings)
    try:
        client(database_url(url), timeout_s=1.0)
    except MissingExtra:
        return errors  # told when it is needed
    except ConfigurationError as error:
        return {"url": error, **errors}
    return errors
