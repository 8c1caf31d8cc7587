"""Redis: append-only file, no snapshots, no password."""

from servers.ports import HOST
from servers.server import Launch, Server, connection, find_program, need_program, receive
from servers.state import Place


class Redis(Server):
    """One node."""

    name = "redis"
    elsewhere = "Redis 7.0 or later, with redis-server on the PATH"

    def packages(self) -> list[str]:
        """See Server."""
        return [] if find_program("redis-server") else ["redis-server"]

    def prepare(self, place: Place) -> None:
        """See Server."""
        (place.folder / "data").mkdir(exist_ok=True)

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        argv = [need_program("redis-server"), "--port", str(place.ports["client"]), "--bind", HOST]
        return [Launch([*argv, "--dir", str(place.folder / "data"), "--appendonly", "yes", "--save", ""])]

    def answers(self, place: Place) -> bool:
        """A server that is still loading its file answers with an error instead."""
        with connection(place.ports["client"]) as link:
            link.sendall(b"PING\r\n")
            return receive(link, 5) == b"+PONG"

    def url(self, place: Place) -> str:
        """See Server."""
        return f"redis://{HOST}:{place.ports['client']}/0"
