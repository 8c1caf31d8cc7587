"""Lines to standard output, which may be a pipe that nobody reads at the moment.

A write never waits for long: what does not fit is left, and half a line is ended before the next one is begun.
"""

from __future__ import annotations

import os
import select
import threading

from fencepost.brokers.file.patience import LOOK_S, Patience


class Pipe:
    """One descriptor. May be used by several threads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._torn = False

    def write(self, lines: bytes, patience: Patience) -> int:
        """Write lines, and say how many are out, whole.

        Ends when they are, or when there is no patience left. Raises OSError where not even the first can be written.
        """
        if not self._lock.acquire(timeout=patience.left_s):
            return 0
        try:
            if self._torn and not self._out(b"\n", patience):
                return 0
            self._torn = False
            written = self._out(lines, patience)
            self._torn = bool(written) and lines[written - 1 : written] != b"\n"
            return lines.count(b"\n", 0, written)
        finally:
            self._lock.release()

    def _out(self, data: bytes, patience: Patience) -> int:
        """How many bytes could be written. In pieces that fit wherever there is room at all, so none blocks."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        view, written = memoryview(data), 0
        while written < len(data):
            if not poll.poll(LOOK_S * 1000):
                if not patience.left_s:
                    break
                continue
            try:
                written += os.write(self._descriptor, view[written : written + select.PIPE_BUF])
            except OSError:
                if not written:
                    raise
                break  # told by the next call
        return written


STDOUT = Pipe(1)
"""Shared by everybody in the process, as it is."""
