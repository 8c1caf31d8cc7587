"""Mosquitto: MQTT 5 without passwords, nothing kept on disk."""

from servers.ports import HOST
from servers.server import Launch, Server, connection, find_program, need_program, receive
from servers.state import Place

# A subscriber that is slow must not lose messages: by default the server drops what exceeds a thousand.
SETTINGS = """\
listener {port} {host}
allow_anonymous true
persistence false
max_queued_messages 0
"""
# A client of MQTT 5 with an empty id, and the first byte of the answer.
QUESTION = b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x05\x00\x00\x00"
CONNACK = b"\x20"


class Mosquitto(Server):
    """One node."""

    name = "mqtt"
    elsewhere = "Mosquitto 2.0 or later, with mosquitto on the PATH"

    def packages(self) -> list[str]:
        """See Server."""
        return [] if find_program("mosquitto") else ["mosquitto"]

    def prepare(self, place: Place) -> None:
        """See Server."""
        settings = SETTINGS.format(port=place.ports["client"], host=HOST)
        (place.folder / "mosquitto.conf").write_text(settings, encoding="ascii")

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        return [Launch([need_program("mosquitto"), "-c", str(place.folder / "mosquitto.conf")])]

    def answers(self, place: Place) -> bool:
        """It lets a client in."""
        with connection(place.ports["client"]) as link:
            link.sendall(QUESTION)
            return receive(link, 1) == CONNACK

    def url(self, place: Place) -> str:
        """See Server."""
        return f"mqtt://{HOST}:{place.ports['client']}"
