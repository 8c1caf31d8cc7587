"""Columns of the outbox that Django's own fields would read differently."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

if TYPE_CHECKING:
    Field = models.Field[Any, Any]
else:
    Field = models.Field  # it takes no types when it runs


class UtcDateTimeField(Field):
    """An aware datetime in UTC, whatever USE_TZ says and the connection's time zone is.

    SQLite has a text, MariaDB a DATETIME, which knows no zone.
    """

    def from_db_value(self, value: Any, _: Any, connection: BaseDatabaseWrapper) -> datetime | None:
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=_zone(connection))
        return moment.astimezone(UTC)


class IdField(Field):
    """A message's id: a UUID as text of 36 characters."""

    def from_db_value(self, value: Any, *_: Any) -> str | None:
        return None if value is None else str(value)

    def to_python(self, value: Any) -> str | None:
        try:
            return None if value is None else str(uuid.UUID(str(value)))
        except ValueError as error:
            raise ValidationError(f"{value!r} is no message's id") from error


def _zone(connection: BaseDatabaseWrapper) -> Any:
    """Of a time without one: UTC, but PostgreSQL's driver, without USE_TZ, takes times to the connection's zone."""
    if connection.vendor != "postgresql":
        return UTC
    return connection.timezone or ZoneInfo(connection.timezone_name)
