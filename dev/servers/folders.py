"""Where a server keeps its data: in the tree when its account can get there, else below the temporary folder."""

import os
import shutil
import stat
import tempfile
from pathlib import Path

from servers.server import ServerError

# Everybody may write there; mkdtemp makes a folder with an unforeseeable name, for one account.
SHARED = ("/tmp", "/var/tmp")  # noqa: S108


def choose(name: str, services: Path, account: str | None) -> Path:
    """Make the data folder of one server and give it to `account` (None: it stays ours).

    A tree may lie below a folder that only its owner can enter (a home, a private temporary folder). A server that
    runs as somebody else then lives below the first temporary folder that everybody can enter.
    """
    if account is None or can_enter(services):
        folder = services / name
        folder.mkdir(exist_ok=True)
    else:
        folder = Path(tempfile.mkdtemp(prefix=f"fencepost-{name}-", dir=_open_folder()))
    if account is not None:
        shutil.chown(folder, account, account)
    return folder


def can_enter(folder: Path) -> bool:
    """Whether every account can reach what lies in this folder."""
    return all(step.stat().st_mode & stat.S_IXOTH for step in (folder, *folder.parents))


def _open_folder() -> Path:
    for folder in (tempfile.gettempdir(), *SHARED):
        path = Path(folder).resolve()
        if path.is_dir() and os.access(path, os.W_OK) and can_enter(path):
            return path
    raise ServerError("no temporary folder that every account can enter")
