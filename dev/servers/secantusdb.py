"""SecantusDB, which speaks MongoDB's protocol as a replica set of one: with transactions and change streams.

It lives in an environment of its own, because it is a server for tests and none of our libraries: it has a licence of
its own, and brings what we do not need.
"""

import subprocess
import sys
from pathlib import Path

from servers.mongo_wire import is_answered
from servers.ports import HOST
from servers.server import Launch, Server, ServerError
from servers.state import Place

VERSION = "0.7.0b3"
TREE = Path(__file__).resolve().parents[2]
ENVIRONMENT = TREE / ".services" / f"secantusdb-{VERSION}"
PROGRAM = ENVIRONMENT / "bin" / "secantusd-py"


class SecantusDB(Server):
    """One node. What it has said is done survives a kill."""

    name = "secantusdb"
    elsewhere = f"Python 3.11 with venv (SecantusDB {VERSION} is then loaded into {ENVIRONMENT})"

    def packages(self) -> list[str]:
        """None: it comes from PyPI."""
        return []

    def is_installed(self) -> bool:
        """See Server."""
        return PROGRAM.exists()

    def fetch(self) -> None:
        """See Server."""
        if self.is_installed():
            return
        pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for argv in ([sys.executable, "-m", "venv", str(ENVIRONMENT)], [*pip, f"secantusdb=={VERSION}"]):
            if subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode:
                raise ServerError(f"SecantusDB could not be installed into {ENVIRONMENT}: {' '.join(argv[:3])} failed")

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        argv = [str(PROGRAM), "--host", HOST, "--port", str(place.ports["client"])]
        data = ["--storage-path", str(place.folder / "data"), "--sync-on-commit"]
        return [Launch([*argv, *data, "--session-max", "512", "--cache-size", "256M"])]

    def answers(self, place: Place) -> bool:
        """See Server."""
        return is_answered(place.ports["client"])

    def url(self, place: Place) -> str:
        """See Server."""
        return f"mongodb://{HOST}:{place.ports['client']}/test"
