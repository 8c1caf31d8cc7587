"""What the commands share: the database that is named, its configuration, and errors as Django shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connections

from fencepost.cli.failures import MANNER, exit_code
from fencepost.config import Config, scrubber
from fencepost.config.problems import ConfigurationErrors
from fencepost.django import settings
from fencepost.errors import FencepostError

_OURS = {
    "`fencepost schema apply`": "`python manage.py migrate`",
    "`fencepost schema print`": "`python manage.py sqlmigrate fencepost 0001`",
}
"""Remedies as they are here."""


def add_database(parser: CommandParser) -> None:
    """The option that names the database."""
    parser.add_argument(
        "--database", metavar="ALIAS", help="One of settings.DATABASES. Default: that of settings.FENCEPOST."
    )


def configured(alias: str | None, run: Callable[[Config], Any]) -> Any:
    """What ``run`` makes of the configuration. Errors of Fencepost end as CommandError, without secrets."""
    try:
        config = settings.config(settings.default_alias() if alias is None else alias)
        hide = scrubber(config)
        MANNER.scrub = lambda text: _in_django(hide(text))
        connections.close_all()  # the relay has connections of its own
        return run(config)
    except FencepostError as error:
        raise CommandError(MANNER.scrub(_shown(error)), returncode=exit_code(error)) from error


def _in_django(text: str) -> str:
    for theirs, ours in _OURS.items():
        text = text.replace(theirs, ours)
    return text


def _shown(error: FencepostError) -> str:
    single = error.errors if isinstance(error, ConfigurationErrors) else (error,)
    return "\n".join(f"{each.what}\n  {each.remedy}" if each.remedy else each.what for each in single)
