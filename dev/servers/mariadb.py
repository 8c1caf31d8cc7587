"""MariaDB: row-based binary log, user root without a password, an empty database `fencepost`."""

from servers.ports import HOST
from servers.server import Launch, Server, connection, find_program, need_program, receive
from servers.state import Place

PROTOCOL_10 = 10
FIRST_STATEMENTS = "CREATE DATABASE IF NOT EXISTS fencepost;\n"


class MariaDB(Server):
    """The socket file has a relative path, so that the depth of the tree does not matter."""

    name = "mariadb"
    account = "mysql"
    elsewhere = "MariaDB 10.6 or later, with mariadbd and mariadb-install-db on the PATH"

    def packages(self) -> list[str]:
        """See Server."""
        programs = [find_program(name) for name in ("mariadbd", "mariadb-install-db")]
        return [] if all(programs) else ["mariadb-server"]

    def prepare(self, place: Place) -> None:
        """See Server."""
        (place.folder / "first.sql").write_text(FIRST_STATEMENTS, encoding="ascii")
        data = place.folder / "data"
        if (data / "mysql").exists():
            return
        options = [f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"]
        self.call(place, [need_program("mariadb-install-db"), "--no-defaults", *options])

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        options = {
            "datadir": place.folder / "data",
            "port": place.ports["client"],
            "bind-address": HOST,
            "socket": "mariadb.sock",
            "pid-file": place.folder / "mariadb.pid",
            "init-file": place.folder / "first.sql",
            "character-set-server": "utf8mb4",
            "log-bin": "binlog",
            "server-id": 1,
            "binlog-format": "ROW",
        }
        argv = [need_program("mariadbd"), "--no-defaults", *(f"--{key}={value}" for key, value in options.items())]
        return [Launch(argv)]

    def answers(self, place: Place) -> bool:
        """The server speaks first: its greeting starts with the version of the protocol (an error with 255)."""
        with connection(place.ports["client"]) as link:
            return receive(link, 5)[4] == PROTOCOL_10

    def url(self, place: Place) -> str:
        """See Server."""
        return f"mysql://root@{HOST}:{place.ports['client']}/fencepost"
