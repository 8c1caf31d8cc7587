"""The names and numbers that writers and readers of one outbox must agree on, in every release."""

import pytest
from sqlalchemy.engine.default import DefaultDialect

from fencepost.errors import ConfigurationError
from fencepost.sql.adding import OutboxWriter
from fencepost.sql.outbox import channel, lock_number


def test_channels() -> None:
    assert channel(None, "fencepost_") == "fencepost:fencepost_outbox"
    assert channel("shop", "fencepost_") == "fencepost:shop.fencepost_outbox"


def test_a_long_channel_is_a_digest() -> None:
    """PostgreSQL refuses names of more than 63 bytes."""
    longest = channel("s" * 36, "fencepost_")
    assert longest == f"fencepost:{'s' * 36}.fencepost_outbox"
    assert len(longest) == 63
    assert channel("s" * 37, "fencepost_") == "fencepost:776479149ea88679889295ba2a97b65d"
    assert channel("é" * 20, "fencepost_") != channel("é" * 21, "fencepost_")
    assert all(len(channel("é" * count, "fencepost_").encode()) <= 63 for count in range(60))


def test_lock_numbers() -> None:
    """Two releases that run side by side must wait for each other."""
    assert lock_number("orders", "1") == 8170273982623898929
    assert lock_number("orders", "2") == -6766787368451602243
    assert lock_number("order", "s1") == 427203274258630388
    assert lock_number("é", "é") == -6053237580327926188


def test_a_database_that_cannot_hold_an_outbox() -> None:
    writer = OutboxWriter(None, "fencepost_", "counter")
    known = "cockroachdb, mariadb, mssql, mysql, oracle, postgresql, sqlite"
    with pytest.raises(ConfigurationError, match=f"cannot be kept in 'default': use one of {known}"):
        writer.statements(DefaultDialect())
