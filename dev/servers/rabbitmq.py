"""RabbitMQ with streams: a node of its own, with a port mapper of its own, all on loopback."""

from pathlib import Path

from servers.ports import HOST
from servers.server import Launch, Server, connection, find_program, need_program, receive
from servers.state import Place

# The start script of the Debian package itself: the wrapper on the search path changes the account.
PACKAGE_FOLDER = Path("/usr/lib/rabbitmq/bin")
# Frame of a method (1) on channel 0.
FIRST_FRAME = b"\x01\x00\x00"


class RabbitMQ(Server):
    """Erlang's port mapper is started by us and not by the server, which would leave it behind."""

    name = "rabbitmq"
    port_names = ("client", "stream", "distribution", "mapper")
    elsewhere = "RabbitMQ 3.10 or later, with rabbitmq-server and Erlang's epmd on the PATH"

    def packages(self) -> list[str]:
        """See Server."""
        programs = [find_program("rabbitmq-server", [PACKAGE_FOLDER]), find_program("epmd")]
        return [] if all(programs) else ["rabbitmq-server"]

    def prepare(self, place: Place) -> None:
        """See Server."""
        settings = f"stream.listeners.tcp.1 = {HOST}:{place.ports['stream']}\n"
        (place.folder / "rabbitmq.conf").write_text(settings, encoding="ascii")
        (place.folder / "enabled_plugins").write_text("[rabbitmq_stream].\n", encoding="ascii")
        self._pid_file(place).unlink(missing_ok=True)

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        mapper = [need_program("epmd"), "-address", HOST, "-port", str(place.ports["mapper"])]
        server = [need_program("rabbitmq-server", [PACKAGE_FOLDER])]
        return [Launch(mapper), Launch(server, self._environment(place))]

    def _environment(self, place: Place) -> dict[str, str]:
        folder, ports = place.folder, place.ports
        return {
            "HOME": str(folder),
            "RABBITMQ_NODENAME": "fencepost@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(ports["client"]),
            "RABBITMQ_DIST_PORT": str(ports["distribution"]),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_PID_FILE": str(self._pid_file(place)),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_PORT": str(ports["mapper"]),
            "ERL_EPMD_ADDRESS": HOST,
        }

    def answers(self, place: Place) -> bool:
        """It opens a conversation on the client port, and listens on the port for streams."""
        with connection(place.ports["stream"]), connection(place.ports["client"]) as link:
            link.sendall(b"AMQP\x00\x00\x09\x01")
            return receive(link, 3) == FIRST_FRAME

    def companions(self, place: Place) -> list[int]:
        """The Erlang machine itself: what we start is a shell script that waits for it, and may die before it."""
        return [int(self._pid_file(place).read_text(encoding="ascii"))]

    def url(self, place: Place) -> str:
        """See Server."""
        return f"amqp://guest:guest@{HOST}:{place.ports['client']}/"

    @staticmethod
    def _pid_file(place: Place) -> Path:
        return place.folder / "rabbitmq.pid"
