"""Options that many commands have, and how a command ends that is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from fencepost.cli.failures import INTERRUPTED, MANNER


def _set_debug(wanted: bool) -> None:
    MANNER.debug = MANNER.debug or wanted


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="The configuration. Default: $FENCEPOST_CONFIG, else fencepost.toml in this folder.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.", callback=_set_debug)]


def interruptible(run: Callable[[], int | None]) -> None:
    """Run a command. Raises typer.Exit with its exit code, where that is not 0."""
    try:
        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code:
        raise typer.Exit(code)
