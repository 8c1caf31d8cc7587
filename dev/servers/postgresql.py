"""PostgreSQL: logical decoding on, every commit on disk, any local user is trusted, no socket file."""

import signal
import struct
from pathlib import Path

from servers.ports import HOST
from servers.process import PROC
from servers.server import Launch, Server, connection, find_program, need_program, receive
from servers.state import Place

SETTINGS = {
    "listen_addresses": HOST,
    # No socket file: its path may hold no more than about a hundred characters, and a tree may lie deeper.
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "8",
    "max_replication_slots": "8",
    "max_connections": "200",
    "fsync": "on",
}
PROTOCOL_3_0 = 196_608


class PostgreSQL(Server):
    """Found in the versioned folders of Debian (the newest) or on the search path."""

    name = "postgresql"
    account = "postgres"
    elsewhere = "PostgreSQL 14 or later, with initdb and postgres on the PATH"
    stop_signal = signal.SIGINT  # its "fast" shutdown; the default one waits for clients to leave

    def packages(self) -> list[str]:
        """See Server."""
        programs = [find_program(name, _folders()) for name in ("initdb", "postgres")]
        return [] if all(programs) else ["postgresql"]

    def prepare(self, place: Place) -> None:
        """See Server."""
        data = place.folder / "data"
        if (data / "global" / "pg_control").exists():
            _forget_stranger(data)
            return
        command = [need_program("initdb", _folders()), "-D", str(data), "-U", "postgres", "-A", "trust"]
        self.call(place, [*command, "-E", "UTF8", "--no-locale"])

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        argv = [need_program("postgres", _folders()), "-D", str(place.folder / "data")]
        for setting, value in {**SETTINGS, "port": str(place.ports["client"])}.items():
            argv += ["-c", f"{setting}={value}"]
        return [Launch(argv)]

    def answers(self, place: Place) -> bool:
        """Log in; a server that is still recovering refuses that."""
        words = b"user\0postgres\0database\0postgres\0\0"
        with connection(place.ports["client"]) as link:
            link.sendall(struct.pack("!II", 8 + len(words), PROTOCOL_3_0) + words)
            while True:
                kind, length = struct.unpack("!cI", receive(link, 5))
                receive(link, length - 4)
                if kind in b"EZ":  # an error, or ready for a query
                    return bool(kind == b"Z")

    def url(self, place: Place) -> str:
        """See Server."""
        return f"postgresql://postgres@{HOST}:{place.ports['client']}/postgres"


def _folders() -> list[Path]:
    found = Path("/usr/lib/postgresql").glob("*/bin")
    return sorted(found, key=lambda folder: float(folder.parent.name), reverse=True)


def _forget_stranger(data: Path) -> None:
    """Remove a left-over lock file whose number now belongs to a process that is not this server.

    PostgreSQL refuses to start while a process of that number exists, whoever it is.
    """
    lock = data / "postmaster.pid"
    if not lock.exists():
        return
    pid = lock.read_text(encoding="utf-8").partition("\n")[0].strip()
    try:
        command_line = (PROC / pid / "cmdline").read_bytes()
    except OSError:
        return  # nobody has that number: PostgreSQL sees that itself
    # A process that is just being started has no command line yet; that it is a stranger is not known then.
    if command_line and str(data).encode() not in command_line:
        lock.unlink()
