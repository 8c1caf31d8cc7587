"""Kafka through a proxy: its answers say where its nodes are, and here they say where the proxies are instead."""

from __future__ import annotations

import struct
from collections.abc import Mapping

Address = tuple[str, int]

_LENGTH = 4


class Redirected:
    """Translates what one connection receives: whole answers, in which every node's address is replaced.

    In every version of the protocol an address is a text and, right behind it, the port in four bytes. The text that
    replaces it has its length, so that nothing else changes.
    """

    def __init__(self, proxies: Mapping[Address, int]) -> None:
        """``proxies`` maps where a node says it is to the port of the proxy that leads there."""
        self._changes = [
            (_written(host, port), _written(loopback(len(host)), proxy)) for (host, port), proxy in proxies.items()
        ]
        self._waiting = b""

    def __call__(self, data: bytes) -> bytes:
        self._waiting += data
        whole = b""
        while len(self._waiting) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self._waiting[:_LENGTH], "big")
            if len(self._waiting) < end:
                break
            whole += self._replaced(self._waiting[:end])
            self._waiting = self._waiting[end:]
        return whole

    def _replaced(self, answer: bytes) -> bytes:
        for old, new in self._changes:
            answer = answer.replace(old, new)
        return answer


def loopback(characters: int) -> str:
    """The loopback address written with so many characters, at least five: "127.0001" is 127.0.0.1."""
    return "127." + "1".zfill(characters - 4)


def is_replaceable(address: Address) -> bool:
    """True where an address of the same length can be written."""
    return len(address[0]) >= len("127.1")


def _written(host: str, port: int) -> bytes:
    return host.encode() + struct.pack(">i", port)
