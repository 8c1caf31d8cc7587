"""An inbox table as a broker: the messages become rows of a consumer's database, PostgreSQL, MariaDB or SQLite.

A batch and its receipt are one transaction there, which the lane's fence lets through or refuses: exactly-once. Oracle,
SQL Server and CockroachDB are served by the same statements, which are compiled for them and were never run there.
"""

from __future__ import annotations

from fencepost.brokers.sql.address import database_url
from fencepost.brokers.sql.broker import SqlBroker
from fencepost.brokers.sql.settings import Settings
from fencepost.ports import Broker, BrokerOptions
from fencepost.settings import refusing
from fencepost.sql.client import client


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as inbox+postgresql://user@host:5432/database.

    Raises ConfigurationError, or MissingExtra where the database's driver is not installed.
    """
    return SqlBroker(options)


refused = refusing(Settings, lambda url: client(database_url(url), timeout_s=1.0))
"""What cannot be used of the URL ("url") and the settings, and why."""
