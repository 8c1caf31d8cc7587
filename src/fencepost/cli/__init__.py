"""The command `fencepost`: it reads what was typed, calls the composition root and renders what that reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with ``arguments`` (those of the process by default) and end the process with its exit code."""
    from fencepost.cli.failures import report
    from fencepost.cli.program import program
    from fencepost.errors import FencepostError

    try:
        program(pretty=sys.stdout.isatty())(
            args=list(sys.argv[1:] if arguments is None else arguments), prog_name="fencepost"
        )
    except FencepostError as error:
        sys.exit(report(error))
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
