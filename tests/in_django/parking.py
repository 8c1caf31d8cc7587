"""Parked messages for tests, as a relay leaves them."""

from __future__ import annotations

import asyncio
from typing import Any

from django.db import connections, transaction

from fencepost import plugins
from fencepost.django import outbox
from fencepost.ports import DatabaseOptions, Lane
from tests.in_django.conftest import Database


def park(database: Database, *messages: tuple[Any, ...], reason: str = "too large") -> list[str]:
    """Add messages (topic, payload, key) and park them; their ids."""
    with transaction.atomic(using=database.alias):
        ids = [
            outbox.add(topic, payload, key=key, headers={"trace": "s3cret"}, using=database.alias).id
            for topic, payload, key in messages
        ]
    asyncio.run(_park(database.url, set(ids), reason))
    return ids


async def _park(url: str, ids: set[str], reason: str) -> None:
    plugin = plugins.load("database", plugins.name_of("database", url))
    session = await plugin.source(DatabaseOptions(url=url)).connect()
    try:
        rows = await session.pending(Lane("shop"), 1000)
        await session.park([(row, reason) for row in rows if row.id in ids])
    finally:
        await session.close()


def set_position(database: Database, position: int) -> None:
    """Let the only row of each table stand, or have stood, there."""
    with connections[database.alias].cursor() as cursor:
        cursor.execute("UPDATE fencepost_outbox SET seq = %s", [position])
        cursor.execute("UPDATE fencepost_parked SET seq = %s, version = %s", [position, position])
