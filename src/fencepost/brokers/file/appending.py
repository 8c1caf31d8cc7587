"""Appending lines to a file that others may append to, rename or remove meanwhile.

The file is opened anew for each batch, so a rotated one is not written to any more. It is locked while it is written:
lines of two writers never mix. What was half written by somebody who died gets a line feed, so that it spoils no line
but its own; what is half written here, because the disk is full, is taken back.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

from fencepost.brokers.file.patience import Patience
from fencepost.errors import Contention, FixError

_MODE = 0o640
_OPENINGS_MAX = 20


def append(path: str, data: bytes, patience: Patience, *, create: bool, fsync: bool) -> None:
    """Append whole lines, all or none. Raises OSError, FixError or Contention."""
    descriptor = _opened(path, patience, create=create)
    try:
        size = os.fstat(descriptor).st_size
        torn = b"" if _ends_well(descriptor, size) else b"\n"
        try:
            _write(descriptor, torn + data)
            if fsync:
                os.fsync(descriptor)
                if not size:
                    _sync_folder(path)
        except OSError:
            with suppress(OSError):  # then the next writer ends the line
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)  # the lock goes with it


def _opened(path: str, patience: Patience, *, create: bool) -> int:
    """The file that has this name while it is locked here."""
    for _ in range(_OPENINGS_MAX):
        descriptor = _open(path, create=create)
        try:
            _check_kind(descriptor, path)
            _lock(descriptor, path, patience)
            if _is_there(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was rotated before it was locked
    raise Contention(f"{path} is replaced again and again", remedy="rotate it less often")


def _open(path: str, *, create: bool) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK  # it may be no file, and must not block then
    try:
        return os.open(path, flags | os.O_CREAT, _MODE)
    except FileNotFoundError:
        if not create:
            raise
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, flags | os.O_CREAT, _MODE)


def _check_kind(descriptor: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise FixError(f"{path} is no regular file", remedy="write stdout: for a pipe, or change the URL")


def _lock(descriptor: int, path: str, patience: Patience) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not patience.wait():
                remedy = "see who holds it (lslocks): another relay that stands still in the middle of a batch?"
                raise Contention(f"{path} is locked by another process", remedy=remedy) from None


def _is_there(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116 - of the same call as above
    except FileNotFoundError:
        return False


def _ends_well(descriptor: int, size: int) -> bool:
    return not size or os.pread(descriptor, 1, size - 1) == b"\n"


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_folder(path: str) -> None:
    """A new file is there after a crash only if its folder says so."""
    folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
