"""The FastAPI example tells in /health that the broker is down, also while it has nothing to publish."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from fencepost.app.asking import EVERY_S
from tests.brokers.nats_kit import OwnNats
from tests.docs.processes import TREE, running
from tests.services import free_port

EXAMPLE = TREE / "examples" / "fastapi_orders"


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[OwnNats]:
    """A NATS server that may be stopped."""
    with OwnNats(tmp_path).running() as server:
        yield server


@pytest.fixture
async def client(nats_server: OwnNats, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Of the example, which runs."""
    port = free_port()
    command = [sys.executable, "-W", "error", "-m", "uvicorn", "main:app", "--host", "127.0.0.1", "--port", str(port)]
    variables = {
        "FENCEPOST_DATABASE__URL": f"sqlite+aiosqlite:///{tmp_path}/orders.db",
        "FENCEPOST_BROKER__URL": nats_server.url,
    }
    with running(command, cwd=EXAMPLE, output=tmp_path / "output", env=variables):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            yield client


async def health(client: httpx.AsyncClient, status: int) -> str:
    """Wait until /health answers so; its text."""
    async with asyncio.timeout(30):
        while True:
            try:
                answer = await client.get("/health")
            except httpx.TransportError:  # it is starting
                answer = None
            if answer is not None and answer.status_code == status:
                return answer.text
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_health_tells_that_the_broker_is_down(nats_server: OwnNats, client: httpx.AsyncClient) -> None:
    order = {"customer": "ada", "cents": 4200}
    assert await health(client, 200) == '{"relay":"ok"}'
    nats_server.stop()
    async with asyncio.timeout(2 * EVERY_S):
        said = await health(client, 503)
    assert "connecting to NATS at" in said, "though there was nothing to publish"
    assert (await client.post("/orders", json=order)).status_code == 201
    await asyncio.sleep(1)
    assert "the relay cannot go on: " in await health(client, 503)
    nats_server.start()
    assert await health(client, 200) == '{"relay":"ok"}'
