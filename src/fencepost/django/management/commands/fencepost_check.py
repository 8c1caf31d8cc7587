"""`manage.py fencepost_check`: what `fencepost check` does, for one of settings.DATABASES."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from fencepost.cli import check
from fencepost.django.management.commands._configured import add_database, configured


class Command(BaseCommand):
    """Reports."""

    help = "Connect to the database, the lease store and the broker; say what is wrong. Changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        """The database, and the form of the report."""
        add_database(parser)
        parser.add_argument("--json", action="store_true", help="Print one JSON object as the last line.")

    def handle(self, *_: Any, database: str | None = None, json: bool = False, **__: Any) -> None:
        """Exit with 1 where something is wrong, with 3 where only servers cannot be reached."""
        code = configured(database, lambda config: check.show(config, as_json=json))
        if code:
            sys.exit(code)
