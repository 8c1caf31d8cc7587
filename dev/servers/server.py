"""What every server has in common: the contract that each file beside this one fills in."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import MappingProxyType

from servers.ports import HOST
from servers.state import Place

# A user's search path often lacks the folders of system programs.
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/homebrew/bin", "/opt/homebrew/sbin")
ANSWER_TIMEOUT_S = 2.0
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fencepost"
"""What is loaded or built once, for all checkouts: a folder for each version."""


class ServerError(Exception):
    """A server cannot be installed, prepared or started; the text is one line for the person at the terminal."""


@dataclass(frozen=True)
class Launch:
    """One program to start, with the variables it needs besides ours."""

    argv: list[str]
    env: Mapping[str, str] = field(default_factory=dict)


class Server(ABC):
    """One kind of server. It holds no state: everything about a running one is in its `Place`."""

    name: str
    port_names: tuple[str, ...] = ("client",)
    account: str | None = None
    """The account it must run as where we are root; None when it does not mind being root."""
    elsewhere: str
    """What to install where we cannot: the end of a sentence."""
    stop_signal = signal.SIGTERM
    stop_patience_s = 20.0

    @abstractmethod
    def packages(self) -> list[str]:
        """The Debian packages that are missing here; empty when all of its programs are found."""

    def fetch(self) -> None:  # noqa: B027 - most need nothing besides their packages
        """Get what is not a Debian package; does nothing when it is there already."""

    def is_installed(self) -> bool:
        """Whether it could be started now."""
        return not self.packages()

    def prepare(self, place: Place) -> None:  # noqa: B027 - some need nothing
        """Make the data folder and the settings; what an earlier start made is kept."""

    @abstractmethod
    def launches(self, place: Place) -> list[Launch]:
        """The programs to start, in order; the last one is the server itself."""

    @abstractmethod
    def answers(self, place: Place) -> bool:
        """Whether it speaks its protocol and would serve a client now."""

    def companions(self, place: Place) -> list[int]:
        """Numbers of further processes that a ready server has started and that would outlive it."""
        return []

    @abstractmethod
    def url(self, place: Place) -> str:
        """Its address, as a test or an application writes it."""

    def run_as(self) -> str | None:
        """The account to switch to, None to stay who we are."""
        return self.account if self.account and os.geteuid() == 0 else None

    def call(self, place: Place, argv: list[str]) -> None:
        """Run a program that prepares something, as the server's account; its output goes to the server's log."""
        user = self.run_as()
        with place.log.open("ab") as log:
            done = subprocess.run(
                argv,
                cwd=place.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
                user=user,
                group=user,
                extra_groups=[] if user else None,
            )
        if done.returncode:
            raise ServerError(f"{Path(argv[0]).name} failed with exit code {done.returncode}")


def find_program(name: str, folders: Iterable[str | Path] = ()) -> str | None:
    """The path of a program: from the given folders first, then from the search path and the system's folders."""
    wanted = [*map(str, folders), *os.environ.get("PATH", "").split(os.pathsep), *SYSTEM_FOLDERS]
    return shutil.which(name, path=os.pathsep.join(wanted))


def need_program(name: str, folders: Iterable[str | Path] = ()) -> str:
    """Like `find_program`, but a missing one is an error."""
    path = find_program(name, folders)
    if path is None:
        raise ServerError(f"{name} is not installed")
    return path


@contextmanager
def connection(port: int) -> Iterator[socket.socket]:
    """A connection to a port of loopback that gives up soon. Raises OSError when nobody listens or answers."""
    with socket.create_connection((HOST, port), timeout=ANSWER_TIMEOUT_S) as link:
        yield link


def ask(port: int, method: str, path: str, body: str = "", headers: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """What an HTTP server at a port of loopback answers to a request. Raises OSError unless the status is 200."""
    link = HTTPConnection(HOST, port, timeout=ANSWER_TIMEOUT_S)
    try:
        link.request(method, path, body, dict(headers))
        answer = link.getresponse()
        if answer.status == HTTPStatus.OK:
            return answer.read()
        raise ConnectionError(f"the answer is {answer.status}")
    except HTTPException as error:
        raise ConnectionError(str(error)) from error
    finally:
        link.close()


@contextmanager
def draft_of(folder: Path, is_whole: Callable[[], bool]) -> Iterator[tuple[Path, Path]]:
    """A folder for drafts, and in it the place for what ``folder`` is to be: renamed at the end, so it is always whole.

    ``is_whole``: whether another checkout was quicker.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-") as draft:
        made = Path(draft) / "made"
        yield Path(draft), made
        if not is_whole():
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)


def receive(link: socket.socket, count: int) -> bytes:
    """Exactly `count` bytes. Raises OSError when the other side closes before."""
    parts = bytearray()
    while len(parts) < count:
        part = link.recv(count - len(parts))
        if not part:
            raise ConnectionError("closed by the server")
        parts += part
    return bytes(parts)
