"""The Django example as processes: orders come in over HTTP, a relay publishes them, the stream is read back."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from tests.brokers.nats_kit import Place
from tests.docs.processes import TREE, environment, running, until
from tests.services import free_port

EXAMPLE = TREE / "examples" / "django_shop"
MANAGE = (sys.executable, "-W", "error", "manage.py")


@pytest.fixture
async def stream(nats_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """A stream of the test's own."""
    place = Place(nats_url, fresh_name)
    yield place
    await place.drop()


@pytest.fixture(params=["sqlite", "postgresql"])
def variables(request: pytest.FixtureRequest, stream: Place, tmp_path: Path) -> dict[str, str]:
    """What the example leaves to the environment."""
    found = {"SHOP_BROKER": stream.url, "SHOP_STREAM": stream.name, "SHOP_FILE": str(tmp_path / "shop.db")}
    if request.param == "postgresql":
        parts = urlsplit(request.getfixturevalue("fresh_database"))
        found |= {"PGDATABASE": parts.path[1:], "PGHOST": str(parts.hostname), "PGPORT": str(parts.port)}
        found |= {"PGUSER": str(parts.username), "PGPASSWORD": parts.password or ""}
    return found


def manage(variables: dict[str, str], *arguments: str) -> str:
    """Run a command that ends well; what it printed."""
    env = environment(variables)
    done = subprocess.run(
        [*MANAGE, *arguments], cwd=EXAMPLE, env=env, capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def rows(variables: dict[str, str], query: str) -> list[Any]:
    """What the shop's database says."""
    if "PGDATABASE" not in variables:
        with closing(sqlite3.connect(variables["SHOP_FILE"])) as connection:
            return connection.execute(query).fetchall()
    names = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGPASSWORD": "password", "PGDATABASE": "dbname"}
    with psycopg.connect("", **{names[name]: variables[name] for name in names}) as postgresql:  # type: ignore[arg-type]
        return postgresql.execute(query.encode()).fetchall()


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/orders").status_code == 405
    except httpx.TransportError:
        return False


@pytest.mark.slow
async def test_orders_arrive(variables: dict[str, str], stream: Place, tmp_path: Path) -> None:
    manage(variables, "migrate", "--verbosity=0")
    port = free_port()
    server = [*MANAGE, "runserver", "--noreload", f"127.0.0.1:{port}"]
    with running(server, cwd=EXAMPLE, output=tmp_path / "server", env=variables):
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            until(lambda: answers(client), "the application answers")
            place_orders(client)
        assert rows(variables, "SELECT count(*) FROM fencepost_outbox") == [(12,)]
        with running([*MANAGE, "fencepost_relay"], cwd=EXAMPLE, output=tmp_path / "relay", env=variables):
            until(lambda: rows(variables, "SELECT count(*) FROM fencepost_outbox") == [(0,)], "all is published")
    said = [json.loads(line)["event"] for line in (tmp_path / "relay").read_text().splitlines()]
    assert said[0] == "starting"
    assert "stopping" in said
    assert said[-1] == "stopped"
    assert rows(variables, "SELECT count(*) FROM fencepost_lease WHERE owner IS NOT NULL") == [(0,)]
    await check(stream, rows(variables, "SELECT id, customer, cents FROM shop_order"))


def place_orders(client: httpx.Client) -> None:
    """15 orders of 3 customers, by the three routes in turn."""
    for number in range(15):
        order = {"customer": f"customer-{number % 3}", "cents": 100 + number}
        route = ("/orders", "/orders/async", "/orders/refused", "/orders", "/orders")[number % 5]
        answer = client.post(route, json=order)
        assert answer.status_code == (402 if "refused" in route else 201), answer.text


async def check(stream: Place, committed: list[tuple[int, str, int]]) -> None:
    """Each committed order has one message, in the order of its customer, and nothing else was sent."""
    published = await stream.published()
    assert len(committed) == 12
    sent = [json.loads(message.body) for message in published]
    assert sorted((one["order"], one["customer"], one["cents"]) for one in sent) == sorted(committed)
    versions: dict[str, list[int]] = {}
    for message in published:
        assert message.subject == f"{stream.name}.orders"
        assert message.headers["ce-type"] == "order.placed"
        versions.setdefault(message.headers["ce-subject"], []).append(int(message.headers["ce-entityversion"]))
    assert len(versions) == 3
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in versions.values()), versions


def test_its_models_and_migrations_agree(tmp_path: Path) -> None:
    variables = {"SHOP_FILE": str(tmp_path / "shop.db")}
    assert "No changes detected" in manage(variables, "makemigrations", "--check", "--dry-run")
