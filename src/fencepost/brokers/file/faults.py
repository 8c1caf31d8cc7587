"""From errors of the operating system to the families. Every one is about the place: no message is to blame."""

from __future__ import annotations

import errno

from fencepost.errors import AccessDenied, FencepostError, FixError, SchemaMissing, Unavailable
from fencepost.faults import Verdict, as_error

_FULL = "make room, or rotate the file"
_RIGHTS = "give the relay's user the right to write there"
_BY_ERRNO: dict[int, Verdict] = {
    errno.ENOSPC: (Unavailable, _FULL),
    errno.EDQUOT: (Unavailable, _FULL),
    errno.EFBIG: (Unavailable, "rotate the file: it has reached the largest size that is allowed"),
    errno.EACCES: (AccessDenied, _RIGHTS),
    errno.EPERM: (AccessDenied, _RIGHTS),
    errno.EROFS: (AccessDenied, "the file system is read-only: mount it otherwise, or write elsewhere"),
    errno.ENOENT: (SchemaMissing, "create the folder, or set create = true"),
    errno.ENOTDIR: (FixError, "a part of the path is a file: change the URL"),
    errno.EISDIR: (FixError, "there is a folder of that name: change the URL"),
    errno.ENXIO: (FixError, "there is something else than a file: change the URL"),
    errno.ELOOP: (FixError, "mend the symbolic links of the path"),
    errno.ENAMETOOLONG: (FixError, "the path is too long: change the URL"),
    errno.EINVAL: (FixError, "the file system does not take this: change the URL"),
    errno.ETXTBSY: (FixError, "a program of that name is running: change the URL"),
    errno.EPIPE: (FixError, "whoever read it has ended: start the relay and its reader again"),
    errno.EBADF: (FixError, "standard output is closed: start the relay with one"),
}


def from_system(error: OSError, what: str) -> FencepostError:
    """An error as one of the families; what nobody knows is taken to pass."""
    return as_error(_BY_ERRNO.get(error.errno or 0, (Unavailable, "")), f"{what}: {error.strerror or error}")
