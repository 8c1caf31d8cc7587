"""The outbox and the parked messages as models, to look at. The tables are the migrations' (``operations``): Django is
not to change them, and a message is added by ``outbox.add`` only.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from fencepost.django.fields import IdField, UtcDateTimeField
from fencepost.django.settings import names
from fencepost.sql.tables import State


class Stored(models.Model):
    """The columns that both have."""

    topic: models.CharField[Any, str] = models.CharField(max_length=249)
    key: models.CharField[Any, str | None] = models.CharField(max_length=255, null=True)
    version: models.BigIntegerField[Any, int | None] = models.BigIntegerField(null=True)
    type: models.CharField[Any, str] = models.CharField(max_length=255)
    slot: models.SmallIntegerField[Any, int] = models.SmallIntegerField()
    payload: models.BinaryField[Any, bytes | memoryview | None] = models.BinaryField(null=True)
    content_type: models.CharField[Any, str] = models.CharField(max_length=255)
    headers: models.TextField[Any, str | None] = models.TextField(null=True)
    occurred_at = UtcDateTimeField()
    available_at = UtcDateTimeField(null=True)
    attempts: models.IntegerField[Any, int] = models.IntegerField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.topic} {self.key or ''}".strip()


class PendingMessage(Stored):
    """A message that waits."""

    STATES: ClassVar[dict[int, str]] = {
        State.PENDING: "pending",
        State.SENDING: "being sent",
        State.DELAYED: "delayed",
        State.SETTLED: "settled",
    }

    seq: models.BigIntegerField[Any, int] = models.BigIntegerField(primary_key=True)
    message_id = IdField(db_column="id")
    state: models.SmallIntegerField[Any, int] = models.SmallIntegerField()
    token: models.BigIntegerField[Any, int | None] = models.BigIntegerField(null=True)
    last_error: models.TextField[Any, str | None] = models.TextField(null=True)

    class Meta:
        managed = False
        db_table = names().table("outbox")
        default_permissions = ("view",)
        permissions = (("view_payload", "Can view payloads and headers"),)


class ParkedMessage(Stored):
    """A message that could not be published."""

    message_id = IdField(primary_key=True, db_column="id")
    seq: models.BigIntegerField[Any, int] = models.BigIntegerField()
    parked_at = UtcDateTimeField()
    reason: models.TextField[Any, str] = models.TextField()

    class Meta:
        managed = False
        db_table = names().table("parked")
        default_permissions = ("view",)
        permissions = (
            ("retry_parkedmessage", "Can retry parked messages"),
            ("discard_parkedmessage", "Can discard parked messages"),
        )
