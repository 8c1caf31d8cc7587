"""Dynoxide, which speaks DynamoDB's protocol. It is built once, by cargo, into a folder outside the tree."""

import os
import subprocess
from pathlib import Path

from servers.ports import HOST
from servers.server import CACHE, Launch, Server, ServerError, ask, draft_of, find_program, need_program
from servers.state import Place

VERSION = "3.2.0"
FOLDER = CACHE / f"dynoxide-{VERSION}"
CARGO_FOLDERS = (Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "bin",)
FEATURES = "native-sqlite,http-server,cli"
# The signature is not looked at, but there must be one.
HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Target": "DynamoDB_20120810.ListTables",
    "X-Amz-Date": "20300101T000000Z",
    "Authorization": "AWS4-HMAC-SHA256 Credential=none/20300101/none/dynamodb/aws4_request, "
    "SignedHeaders=host, Signature=none",
}


class Dynoxide(Server):
    """One process with its tables in one file."""

    name = "dynamodb"
    elsewhere = "Rust 1.85 or later, with cargo on the PATH (https://rustup.rs); the server is then built in minutes"

    def packages(self) -> list[str]:
        """None: Debian's own cargo is too old."""
        return []

    def is_installed(self) -> bool:
        """See Server."""
        return find_program("dynoxide", (FOLDER / "bin",)) is not None

    def fetch(self) -> None:
        """See Server."""
        if self.is_installed() or find_program("cargo", CARGO_FOLDERS) is None:
            return
        print(f"building dynoxide {VERSION} (a few minutes, once)", flush=True)
        with draft_of(FOLDER, self.is_installed) as (draft, made):
            _build(draft, made)

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        argv = [need_program("dynoxide", (FOLDER / "bin",)), "serve", "--host", HOST]
        return [Launch([*argv, "--port", str(place.ports["client"]), "--db-path", str(place.folder / "data.db")])]

    def answers(self, place: Place) -> bool:
        """It lists its tables."""
        return bool(ask(place.ports["client"], "POST", "/", "{}", HEADERS))

    def url(self, place: Place) -> str:
        """See Server."""
        return f"dynamodb://eu-west-1/?endpoint=http://{HOST}:{place.ports['client']}"


def _build(draft: Path, root: Path) -> None:
    argv = [need_program("cargo", CARGO_FOLDERS), "install", "dynoxide-rs", "--version", VERSION, "--locked"]
    argv += ["--no-default-features", "--features", FEATURES, "--root", str(root)]
    # cargo finds its compiler beside itself, where the search path does not name it.
    path = os.pathsep.join([*map(str, CARGO_FOLDERS), os.environ.get("PATH", "")])
    env = {**os.environ, "PATH": path, "CARGO_TARGET_DIR": str(draft / "target")}
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("error")] or ["no reason given"]
        raise ServerError(f"cargo could not build dynoxide-rs {VERSION}: {lines[0]}")
