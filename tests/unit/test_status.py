"""`fencepost status`, its look: what becomes of the parts that still work on their answer when another has failed."""

from __future__ import annotations

import asyncio

import pytest

from fencepost.app.status import status
from fencepost.brokers import memory as brokers
from fencepost.config import load
from fencepost.databases import memory as databases
from fencepost.errors import AccessDenied

URL = "memory://status"


async def test_an_error_of_the_database_does_not_leave_another_part_under_way() -> None:
    """A connection that is just being made when everything is closed would be nobody's, and stay open."""
    database, broker = databases.database(URL), brokers.server(URL)
    database.gate.fail_next(1, AccessDenied("no entry"), call="backlog")
    broker.gate.latency_s = 0.05
    values = {"RELAY__NAME": "status", "DATABASE__URL": URL, "BROKER__URL": URL}
    config = load(None, {f"FENCEPOST_{name}": value for name, value in values.items()})
    before = asyncio.all_tasks()
    with pytest.raises(AccessDenied, match="no entry"):
        await status(config)
    assert asyncio.all_tasks() == before
