"""Django on psycopg 2, which it takes where psycopg 3 is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.in_django.manage import python

PROGRAM = """
from django.core.management import call_command
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import is_psycopg3

from fencepost import NewMessage
from fencepost.django import outbox, parked
from fencepost.django.models import ParkedMessage, PendingMessage
from fencepost.errors import SchemaMissing

assert not is_psycopg3
try:
    with transaction.atomic():
        outbox.add("orders", 1, key="1")
except SchemaMissing as error:
    assert error.remedy == "run `python manage.py migrate`"
call_command("migrate", "fencepost", verbosity=0)
with transaction.atomic():
    outbox.add("orders", b"\\x00%s", key="50%", headers={"h": "ü"})
    outbox.add_all([NewMessage("orders", n, key=key, headers={"n": "1"}) for n, key in ((1, "50%"), (2, None))])
connection.cursor().execute(
    "INSERT INTO fencepost_parked SELECT id, topic, key, version, type, slot, payload, content_type, headers,"
    " occurred_at, available_at, attempts, seq, occurred_at, 'no' FROM fencepost_outbox WHERE seq = 1")
connection.cursor().execute("DELETE FROM fencepost_outbox WHERE seq = 1")
assert len(parked.retry([m.message_id for m in ParkedMessage.objects.all()])) == 1
print([(m.key, m.version, bytes(m.payload), m.headers) for m in PendingMessage.objects.order_by("seq")])
"""


@pytest.mark.slow
def test_messages_are_added_and_retried(fresh_database: str, tmp_path: Path) -> None:
    pytest.importorskip("psycopg2")
    waiting = [
        ("50%", 2, b"1", '{"n":"1"}'),
        (None, None, b"2", '{"n":"1"}'),
        ("50%", 3, b"\x00%s", '{"h":"ü","fencepost-retried":"1"}'),
    ]
    assert python(tmp_path, fresh_database, {}, PROGRAM, without="psycopg") == repr(waiting)
