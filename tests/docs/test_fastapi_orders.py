"""The FastAPI example as a process: orders come in over HTTP, their messages arrive at a real broker."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psycopg
import pytest

from fencepost import app, config
from tests.brokers.nats_kit import Place
from tests.docs.processes import DEADLINE_S, TREE, running, until
from tests.services import free_port

EXAMPLE = TREE / "examples" / "fastapi_orders"


@pytest.fixture
async def stream(nats_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """A stream of the test's own."""
    place = Place(nats_url, fresh_name)
    yield place
    await place.drop()


@pytest.fixture(params=["sqlite", "postgresql"])
def variables(request: pytest.FixtureRequest, stream: Place, tmp_path: Path) -> dict[str, str]:
    """What the example's configuration leaves to the environment here."""
    if request.param == "sqlite":
        database = f"sqlite+aiosqlite:///{tmp_path}/orders.db"
    else:
        url: str = request.getfixturevalue("fresh_database")
        database = url.replace("postgresql://", "postgresql+asyncpg://")
    return {
        "FENCEPOST_RELAY__NAME": stream.name,
        "FENCEPOST_DATABASE__URL": database,
        "FENCEPOST_BROKER__URL": stream.url,
        "FENCEPOST_BROKER__STREAM": stream.name,
        "FENCEPOST_BROKER__SUBJECT_PREFIX": f"{stream.name}.",
    }


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def orders(database: str) -> list[tuple[int, str, int]]:
    """The table of orders, read by somebody else."""
    query = "SELECT id, customer, cents FROM orders ORDER BY id"
    if database.startswith("sqlite"):
        shop = sqlite3.connect(database.partition(":///")[2])
        try:
            return shop.execute(query).fetchall()
        finally:
            shop.close()
    with psycopg.connect(database.replace("+asyncpg", "")) as connection:
        return [(row[0], row[1], row[2]) for row in connection.execute(query)]


@pytest.mark.slow
async def test_orders_arrive_and_refused_ones_do_not(variables: dict[str, str], stream: Place, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-W", "error", "-m", "uvicorn", "main:app", "--host", "127.0.0.1", "--port", str(port)]
    with (
        running(command, cwd=EXAMPLE, output=tmp_path / "output", env=variables),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        until(lambda: answers(client), "the application answers")
        place_orders(client)
        async with asyncio.timeout(DEADLINE_S):
            while (report := await status(variables)).pending:
                await asyncio.sleep(0.05)
        assert report.leader is not None
        assert report.delivery == "exactly-once"
    assert (await status(variables)).leader is None, "the lease was released"
    await check(stream, orders(variables["FENCEPOST_DATABASE__URL"]))


def place_orders(client: httpx.Client) -> None:
    """30 orders of 4 customers; every fifth one is refused."""
    for number in range(30):
        order = {"customer": f"customer-{number % 4}", "cents": 100 + number}
        refused = number % 5 == 4
        answer = client.post("/orders/refused" if refused else "/orders", json=order)
        assert answer.status_code == (402 if refused else 201), answer.text


async def status(variables: dict[str, str]) -> app.StatusReport:
    """What `fencepost status` would say in the example's folder."""
    return await app.status(config.load(EXAMPLE / "fencepost.toml", variables))


async def check(stream: Place, committed: list[tuple[int, str, int]]) -> None:
    """Each committed order has one message, in the order of its customer, and nothing else was sent."""
    published = await stream.published()
    assert len(committed) == 24
    sent = [json.loads(message.body) for message in published]
    assert sorted((one["order"], one["customer"], one["cents"]) for one in sent) == sorted(committed)
    versions: dict[str, list[int]] = {}
    for message in published:
        assert message.subject == f"{stream.name}.orders"
        assert message.headers["ce-type"] == "order.placed"
        versions.setdefault(message.headers["ce-subject"], []).append(int(message.headers["ce-entityversion"]))
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in versions.values()), versions
    assert len(versions) == 4
