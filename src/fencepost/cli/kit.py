"""The commands of the test kit. The kit is loaded when one of them runs: the command line itself does not need it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import typer
from typer.core import TyperCommand

from fencepost.errors import MissingExtra


class _Command(NamedTuple):
    module: str
    help: str


COMMANDS = {
    "torture": _Command("fencepost.testing.torture.command", "Kill, pause, cut off; then count what arrived."),
    "simulate": _Command("fencepost.testing.simulation.command", "Search simulated histories for a broken promise."),
}


class Later(TyperCommand):
    """Stands for a command in the list of commands, and is it as soon as something is wanted of it."""

    def __init__(self, name: str, mode: Literal["rich"] | None) -> None:
        super().__init__(name, help=COMMANDS[name].help)
        self._mode = mode

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the real command, which is then run. Raises MissingExtra."""
        return _loaded(info_name or str(self.name), self._mode).make_context(info_name, args, parent, **extra)


def _loaded(name: str, mode: Literal["rich"] | None) -> Any:
    """The function of the command's name, with its annotations, as a command."""
    try:
        function: Callable[..., None] = getattr(importlib.import_module(COMMANDS[name].module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fencepost"):
            raise
        raise MissingExtra(
            f"fencepost {name} needs the library {error.name!r}, which is not installed",
            remedy='pip install "fencepost[testing]"',
        ) from error
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=mode)
    alone.command(name, context_settings={"help_option_names": ["-h", "--help"]})(function)
    return typer.main.get_command(alone)
