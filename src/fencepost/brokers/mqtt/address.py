"""Where the servers are and how to get in: from the URL and the settings to what the client library is given."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import ClassVar

from fencepost.brokers.mqtt.settings import Settings
from fencepost.servers import Servers


class Address(Servers):
    """The servers of an MQTT broker."""

    __slots__ = ()
    one = "an MQTT server"
    ports: ClassVar[Mapping[str, int]] = {"mqtt": 1883, "mqtts": 8883}
    example = "write mqtt://user:password@host:1883, several hosts with commas between them"
    page = "docs/mqtt.md"
    instead_of_path = 'set topic = "PREFIX/{topic}" where that was meant to stand before each topic'


class _Socket(ssl.SSLSocket):
    """The client library would leave a socket whose handshake fails to the garbage collector."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def tls_context(address: Address, settings: Settings) -> ssl.SSLContext | None:
    """How to encrypt; None for not at all. Raises ConfigurationError for files that cannot be used."""
    context = settings.tls_context(address.tls)
    if context is not None:
        context.sslsocket_class = _Socket
    return context
