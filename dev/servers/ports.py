"""Free ports on loopback, chosen once and then remembered."""

import random
import socket
from collections.abc import Collection

HOST = "127.0.0.1"
# Below the range that systems hand to outgoing connections, so that a remembered port is still free after a restart.
FIRST, LAST = 20_000, 31_999
ATTEMPTS = 1_000


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of loopback now (connections that linger there do not matter)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def pick(taken: Collection[int]) -> int:
    """A port that is free now and not among `taken` (promised to servers that do not listen yet)."""
    chance = random.SystemRandom()
    for _ in range(ATTEMPTS):
        port = chance.randint(FIRST, LAST)
        if port not in taken and is_free(port):
            return port
    raise OSError(f"no free port found between {FIRST} and {LAST}")
