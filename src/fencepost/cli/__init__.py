"""The command `fencepost`: it reads what was typed, calls the composition root and renders what that reports."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with ``arguments`` (those of the process by default) and end the process with its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    from fencepost.cli.early import EARLY

    EARLY.listen(words)
    from fencepost.cli import stdout

    stdout.guard()
    try:
        try:
            _run(words)
        finally:
            sys.stdout.flush()
    except stdout.OutputLost as lost:
        sys.exit(stdout.give_up(lost))


def _run(arguments: Sequence[str]) -> None:
    from fencepost.cli.failures import report
    from fencepost.cli.program import program
    from fencepost.errors import FencepostError

    try:
        program(pretty=sys.stdout.isatty())(args=list(arguments), prog_name="fencepost")
    except FencepostError as error:
        sys.exit(report(error))
