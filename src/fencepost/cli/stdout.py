"""Standard output that cannot be written to: a disk that is full, a reader that has gone.

Everything in the process writes to one guarded stream, whoever it is: our lines, Rich, the help. What goes wrong there
is an error of its own kind, so that it is taken neither for a server's nor for a defect.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Any, TextIO, cast

from fencepost.cli.failures import report
from fencepost.errors import FencepostError

READER_GONE = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1
"""The exit code of any program in a pipe whose reader ends first."""


class OutputLost(Exception):
    """Standard output takes no more. Its cause is the OSError."""


class _Guarded:
    """A stream like the one below it, except for its errors."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise OutputLost from error

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise OutputLost from error


class _Nowhere(io.TextIOBase):
    """Where standard output was closed before we began."""

    def write(self, text: str) -> int:
        return len(text)


def guard() -> None:
    """From now on errors of standard output are OutputLost."""
    sys.stdout = cast("TextIO", _Guarded(sys.stdout or cast("TextIO", _Nowhere())))


def give_up(lost: OutputLost) -> int:
    """Say what is wrong, unless the reader has gone, who wants no more; the exit code."""
    cause = cast("OSError", lost.__cause__)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # Python would complain once more when it flushes
    if isinstance(cause, BrokenPipeError):
        return READER_GONE
    return report(FencepostError(f"standard output cannot be written: {cause.strerror}"))
