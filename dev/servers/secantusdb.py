"""SecantusDB, which speaks MongoDB's protocol as a replica set of one: with transactions and change streams.

It lives in an environment of its own, because it is a server for tests and none of our libraries: it has a licence of
its own, and brings what we do not need.
"""

from pathlib import Path

from servers.mongo_wire import is_answered
from servers.ports import HOST
from servers.pypi import PyPIServer
from servers.server import Launch
from servers.state import Place

VERSION = "0.7.0b3"
TREE = Path(__file__).resolve().parents[2]
ENVIRONMENT = TREE / ".services" / f"secantusdb-{VERSION}"
PROGRAM = ENVIRONMENT / "bin" / "secantusd-py"


class SecantusDB(PyPIServer):
    """One node. What it has said is done survives a kill."""

    name = "secantusdb"
    elsewhere = f"Python 3.11 with venv (SecantusDB {VERSION} is then loaded into {ENVIRONMENT})"
    environment = ENVIRONMENT
    ready = PROGRAM
    requirements = (f"secantusdb=={VERSION}",)

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
