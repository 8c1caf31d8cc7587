"""Errors as one clear line each, and the exit codes."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from fencepost.config.problems import ConfigurationErrors
from fencepost.errors import FencepostError, FixError, RetryError

OK = 0
PROBLEM_FOUND = 1
FIX_NEEDED = 2
UNREACHABLE = 3
INTERRUPTED = 130


@dataclass
class Manner:
    """How this run reports errors. ``scrub`` replaces the secrets of the configuration, once it is known."""

    debug: bool = False
    scrub: Callable[[str], str] = str


MANNER = Manner()


def report(error: FencepostError) -> int:
    """Write the error to standard error; the exit code for it."""
    if sys.stderr is not None:
        try:
            _say(error)
            sys.stderr.flush()
        except OSError:  # who closed it, or let its disk fill up, still gets the exit code
            sys.stderr = None  # or Python tries once more at its end, and ends with a code of its own
    return exit_code(error)


def _say(error: FencepostError) -> None:
    if MANNER.debug:
        sys.stderr.write(MANNER.scrub("".join(traceback.format_exception(error))))
    for single in error.errors if isinstance(error, ConfigurationErrors) else (error,):
        label = "\x1b[1;31merror:\x1b[0m" if sys.stderr.isatty() else "error:"
        sys.stderr.write(f"{label} {_one_line(single.what)}\n")
        if single.remedy:
            sys.stderr.write(f"  {_one_line(single.remedy)}\n")


def _one_line(text: str) -> str:
    return " ".join(MANNER.scrub(text).split())


def exit_code(error: FencepostError) -> int:
    """2 for what a person must change, 3 for a server that cannot be reached, 1 for the rest."""
    if isinstance(error, FixError):
        return FIX_NEEDED
    return UNREACHABLE if isinstance(error, RetryError) else PROBLEM_FOUND
