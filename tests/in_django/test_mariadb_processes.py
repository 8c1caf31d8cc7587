"""A project on MariaDB as processes, by each of Django's two drivers: messages are added, and a relay delivers."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.nats_kit import Place
from tests.databases.mariadb_kit import ask
from tests.docs.processes import TREE, running, until
from tests.in_django import manage, project

ADD = """
import MySQLdb
from django.core.management import call_command
from django.db import connection, transaction

from fencepost import NewMessage
from fencepost.django import outbox, parked
from fencepost.django.models import PendingMessage
from fencepost.errors import SchemaMissing, VersionConflict

try:
    with transaction.atomic():
        outbox.add("orders", 1, key="1")
except SchemaMissing as error:
    assert error.remedy == "run `python manage.py migrate`", error
call_command("migrate", "fencepost", verbosity=0)
call_command("fencepost_check")
with transaction.atomic():
    outbox.add("orders", b"\\x00%s", key="50%", headers={"h": "ü"})
    point = transaction.savepoint()
    outbox.add("orders", "undone", key="50%")
    transaction.savepoint_rollback(point)
    outbox.add_all([NewMessage("orders", n, key=key) for n, key in ((1, "50%"), (2, None), (3, "50%"))])
    try:
        outbox.add("orders", 4, key="50%", version=3)
    except VersionConflict:
        outbox.add("orders", 5, key="50%", version=7)
with connection.cursor() as cursor:
    cursor.execute(
        "INSERT INTO fencepost_parked SELECT id, topic, `key`, version, type, slot, payload, content_type, headers,"
        " occurred_at, available_at, attempts, seq, occurred_at, 'no' FROM fencepost_outbox WHERE seq = 1")
    cursor.execute("DELETE FROM fencepost_outbox WHERE seq = 1")
    cursor.execute("SELECT id FROM fencepost_parked")
    ids = [message_id for (message_id,) in cursor.fetchall()]
assert parked.retry(ids) == ids and parked.retry(ids) == []
found = PendingMessage.objects.order_by("seq")
print([MySQLdb.version_info[:2] > (2,), [(m.key, m.version, bytes(m.payload)) for m in found]])
"""
ADDED = [("50%", 2, b"1"), (None, None, b"2"), ("50%", 3, b"3"), ("50%", 7, b"5"), ("50%", 8, b"\x00%s")]


@pytest.fixture
async def stream(nats_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """A stream of the test's own."""
    place = Place(nats_url, fresh_name)
    yield place
    await place.drop()


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["pymysql", "mysqlclient"])
async def test_what_is_added_is_delivered(driver: str, fresh_mariadb: str, stream: Place, tmp_path: Path) -> None:
    if driver == "mysqlclient" and importlib.util.find_spec("MySQLdb") is None:
        pytest.skip("mysqlclient, which is built from its sources, is not installed: PyMySQL is tested instead")
    assert manage.AS_MYSQLDB in (TREE / "docs" / "django.md").read_text()
    fencepost = {
        "relay": {"name": stream.name},
        "broker": {"url": stream.url, "stream": stream.name, "subject_prefix": f"{stream.name}."},
    }
    more: dict[str, Any] = {"pymysql": driver == "pymysql"}
    if driver == "mysqlclient":
        more["DATABASES"] = {"default": project.entry(fresh_mariadb) | {"OPTIONS": {}}}
    assert manage.python(tmp_path, fresh_mariadb, fencepost, ADD, **more) == repr([True, ADDED])
    env = manage.settings_module(tmp_path, fresh_mariadb, fencepost, **more)
    with running(manage.command("fencepost_relay"), cwd=tmp_path, output=tmp_path / "relay", env=env):
        until(lambda: ask(fresh_mariadb, "SELECT 1 FROM fencepost_outbox LIMIT 1") == [], "all is published")
    said = [json.loads(line)["event"] for line in (tmp_path / "relay").read_text().splitlines()]
    assert (said[0], said[-1]) == ("starting", "stopped")
    published = [(found.headers.get("ce-subject"), found.body) for found in await stream.published()]
    assert published == [(key, payload) for key, _, payload in ADDED]
