"""A fresh outbox of each form."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.mongodb.places import Place, collection_place, embedded_place


@pytest.fixture
async def place(secantusdb_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """An empty outbox with a collection of its own."""
    made = collection_place(secantusdb_url, fresh_name)
    await made.schema.apply()
    yield made
    await made.close()


@pytest.fixture
async def inside(mongo_java_server_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """An empty outbox inside the documents of two collections, on a server without transactions."""
    made = embedded_place(mongo_java_server_url, fresh_name, "orders", "customers")
    await made.schema.apply()
    yield made
    await made.close()
