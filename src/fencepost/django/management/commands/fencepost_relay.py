"""`manage.py fencepost_relay`: what `fencepost relay` does, for one of settings.DATABASES."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from fencepost.cli import relay
from fencepost.cli.early import EARLY
from fencepost.django.management.commands._configured import add_database, configured


class Command(BaseCommand):
    """Publishes until it is stopped."""

    help = (
        "Publish messages until stopped (SIGTERM, Ctrl-C). Start as many as you like: one leads, the others stand by."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """The database."""
        add_database(parser)

    def handle(self, *_: Any, database: str | None = None, **__: Any) -> None:
        """Run."""
        EARLY.listen(["relay"])
        configured(database, relay.run)
