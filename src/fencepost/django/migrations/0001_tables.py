"""Revision 1 of the tables, and the models that look at two of them."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

from fencepost.django.fields import IdField, UtcDateTimeField
from fencepost.django.operations import CreateTables
from fencepost.django.settings import names


def _message() -> list[tuple[str, models.Field[Any, Any]]]:
    return [
        ("topic", models.CharField(max_length=249)),
        ("key", models.CharField(max_length=255, null=True)),
        ("version", models.BigIntegerField(null=True)),
        ("type", models.CharField(max_length=255)),
        ("slot", models.SmallIntegerField()),
        ("payload", models.BinaryField(null=True)),
        ("content_type", models.CharField(max_length=255)),
        ("headers", models.TextField(null=True)),
        ("occurred_at", UtcDateTimeField()),
        ("available_at", UtcDateTimeField(null=True)),
        ("attempts", models.IntegerField()),
    ]


class Migration(migrations.Migration):
    """The models are unmanaged: creating them makes their content types and permissions, and no table."""

    initial = True
    dependencies = ()
    operations = (
        CreateTables(revision=1),
        migrations.CreateModel(
            name="PendingMessage",
            fields=[
                *_message(),
                ("seq", models.BigIntegerField(primary_key=True, serialize=False)),
                ("message_id", IdField(db_column="id")),
                ("state", models.SmallIntegerField()),
                ("token", models.BigIntegerField(null=True)),
                ("last_error", models.TextField(null=True)),
            ],
            options={
                "managed": False,
                "db_table": names().table("outbox"),
                "default_permissions": ("view",),
                "permissions": (("view_payload", "Can view payloads and headers"),),
            },
        ),
        migrations.CreateModel(
            name="ParkedMessage",
            fields=[
                *_message(),
                ("message_id", IdField(db_column="id", primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField()),
                ("parked_at", UtcDateTimeField()),
                ("reason", models.TextField()),
            ],
            options={
                "managed": False,
                "db_table": names().table("parked"),
                "default_permissions": ("view",),
                "permissions": (
                    ("retry_parkedmessage", "Can retry parked messages"),
                    ("discard_parkedmessage", "Can discard parked messages"),
                ),
            },
        ),
    )
