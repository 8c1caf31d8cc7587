"""What is done with parked messages from Django, each call in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.db import connections, transaction
from sqlalchemy.engine import Dialect

from fencepost.django import settings
from fencepost.drivers import django as driver
from fencepost.errors import ConfigurationError
from fencepost.flows import run
from fencepost.sql.parked import ParkedMessages
from fencepost.sql.transaction import Blocking, Work


def retry(ids: Iterable[str], *, keep_versions: bool = False, using: str | None = None) -> list[str]:
    """Put messages to the end of their keys, marked, in the order given; the ids of those that were parked.

    They get the next versions of their keys, or keep their own: where the application gives versions itself, they must.
    """
    return _run(lambda parked, dialect: parked.retry(dialect, ids, keep_versions=keep_versions), using)


def discard(ids: Iterable[str], *, using: str | None = None) -> list[str]:
    """Remove parked messages for good; the ids of those that were parked."""
    return _run(lambda parked, dialect: parked.discard(dialect, ids), using)


def _run(work: Callable[[ParkedMessages, Dialect], Work[list[str]]], using: str | None) -> list[str]:
    alias = settings.default_alias() if using is None else using
    names = settings.names()
    with transaction.atomic(using=alias):
        joined = driver.join(connections[alias])
        if not isinstance(joined, Blocking):
            raise ConfigurationError(f"{alias!r} is no connection of Django's")
        return run(work(ParkedMessages(names.schema, names.prefix), joined.dialect), joined.execute)
