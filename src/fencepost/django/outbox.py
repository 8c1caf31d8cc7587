"""Adding messages in Django: the connection is found by its alias, the options are those of settings.FENCEPOST."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack

from django.db import DEFAULT_DB_ALIAS, connections

from fencepost.django import settings
from fencepost.errors import SchemaMissing
from fencepost.message import Message
from fencepost.newmessage import Attributes, NewMessage
from fencepost.outbox import Outbox


class DjangoOutbox:
    """The outbox of settings.FENCEPOST. It has no state: ``fencepost.django.outbox`` is one for everybody."""

    def add(
        self,
        topic: str,
        payload: object,
        *,
        using: str | None = None,
        **attributes: Unpack[Attributes],
    ) -> Message:
        """Add one message to the transaction that is open on the database ``using``; the rest is as in ``NewMessage``.

        Returns it with its version. Without ``using`` the database is that of settings.FENCEPOST, or the one that the
        routers choose for writes of the app "fencepost".

        Raises MessageRefused, NoTransaction, ConfigurationError, VersionConflict and SchemaMissing before anything was
        written, and Django's own database errors.
        """
        new = NewMessage(topic, payload, **attributes)
        return self.add_all([new], using=using)[0]

    def add_all(self, messages: Iterable[NewMessage], *, using: str | None = None) -> Sequence[Message]:
        """Add many messages, on PostgreSQL in one statement; see ``fencepost.Outbox.add_all``."""
        alias = settings.default_alias() if using is None else using
        outbox = Outbox(**settings.outbox_options())
        try:
            return outbox.add_all(connections[alias], messages)
        except SchemaMissing as error:
            raise SchemaMissing(error.what, remedy=f"run `python manage.py migrate{_database(alias)}`") from error


def _database(alias: str) -> str:
    return "" if alias == DEFAULT_DB_ALIAS else f" --database={alias}"


outbox = DjangoOutbox()
"""The outbox."""
