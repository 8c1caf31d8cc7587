"""What can be told of the place of a file, or of all topics' files, without writing there."""

from __future__ import annotations

import os
from pathlib import Path

from fencepost.errors import AccessDenied, FixError, SchemaMissing

_MOUNTS = Path("/proc/self/mountinfo")  # of Linux only
_OF_THE_SYSTEM = {"bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "proc", "securityfs", "sysfs", "tracefs"}
_RIGHTS = "give the relay's user the right to write there"


def check_place(template: str, *, create: bool) -> None:
    """Raise FixError where no file of this path could be written; {topic} stands for what is not known yet.

    ``create``: folders are made. Raises OSError where it cannot be looked at.
    """
    file, is_one = _known(Path(template))
    if is_one and file.exists():
        if not file.is_file():
            what = "a folder" if file.is_dir() else "no regular file"
            raise FixError(f"{file} is {what}", remedy="change the URL; stdout: is for a pipe")
        if not os.access(file, os.R_OK | os.W_OK):
            raise AccessDenied(f"{file} cannot be read and written by this process", remedy=_RIGHTS)
        return
    folder = next(folder for folder in file.parents if folder.exists())
    if not create and folder != file.parent:
        raise SchemaMissing(f"there is no folder {file.parent}", remedy="create it, or set create = true")
    if create or file == Path(template):  # otherwise the folders of the topics are there, or are not
        _check_folder(folder)


def _known(path: Path) -> tuple[Path, bool]:
    """The path up to the first part that depends on the topic, and whether that is all of it."""
    for part in (*reversed(path.parents), path):
        if "{" in part.name:
            return part, False
    return path, True


def _check_folder(folder: Path) -> None:
    """Something new is to be made in it."""
    if not folder.is_dir():
        raise FixError(f"{folder} is a file, and would have to be a folder", remedy="change the URL")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise AccessDenied(f"this process may not create anything in {folder}", remedy=_RIGHTS)
    if (kind := _kind(folder)) in _OF_THE_SYSTEM:
        raise FixError(f"{folder} is in a {kind} file system, which takes no files", remedy="change the URL")


def _kind(folder: Path) -> str:
    """The kind of file system, "" where that is not known."""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in _MOUNTS.read_text(errors="replace").splitlines() if _MOUNTS.exists() else []:
        mount, _, source = line.partition(" - ")
        if mount.split()[2] == number:
            return source.split()[0]
    return ""
