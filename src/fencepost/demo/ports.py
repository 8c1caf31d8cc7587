"""A port for a server that is restarted on it.

The system gives the ports of its ephemeral range to every outgoing connection. While a server on one of them is away,
a client that tries again and again may be given that very port, and then is connected to itself.
"""

from __future__ import annotations

import socket

from fencepost.clock import Clock

HOST = "127.0.0.1"
_LOW, _HIGH = 20_000, 32_000
"""Below the ephemeral ranges of Linux (from 32768) and of the others (from 49152)."""


def free_port(clock: Clock) -> int:
    """A port of the loopback address that nobody has at this moment."""
    while True:
        port = _LOW + int(clock.random() * (_HIGH - _LOW))
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


def free_ports(count: int, clock: Clock) -> list[int]:
    """So many different ones."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port(clock))
    return sorted(found)
