"""Redis servers of a test's own: with a password, as a replica, nearly full, as a cluster, from an older file."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import redis

from servers.ports import HOST
from servers.redis import Redis
from servers.server import Launch, connection, need_program, receive
from servers.state import Place
from tests.own_server import OwnServer

IN_MEMORY = ("--save", "", "--appendonly", "no")


class _Configured(Redis):
    """With arguments of a test's own, perhaps a password. Its files are in its folder itself."""

    def __init__(self, arguments: tuple[str, ...]) -> None:
        self._arguments = arguments

    def launches(self, place: Place) -> list[Launch]:
        where = ["--port", str(place.ports["client"]), "--bind", HOST, "--dir", str(place.folder)]
        return [Launch([need_program("redis-server"), *self._arguments, *where])]

    def answers(self, place: Place) -> bool:
        with connection(place.ports["client"]) as link:
            link.sendall(b"PING\r\n")
            return receive(link, 5) in {b"+PONG", b"-NOAU"}


class RedisServer(OwnServer):
    """A server in a folder of its own."""

    def __init__(self, folder: Path, arguments: tuple[str, ...]) -> None:
        super().__init__(_Configured(arguments), folder)

    @property
    def url(self) -> str:
        """Its address."""
        return self.kind.url(self.place)

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.place.folder

    def client(self, **options: Any) -> Any:
        """A client whose connections are closed by ``close``."""
        return redis.Redis(host=HOST, port=self.port, **options)


def redis_server(folder: Path, *arguments: str) -> AbstractContextManager[RedisServer]:
    """A server that runs; killed at the end."""
    return RedisServer(folder, arguments or IN_MEMORY).running()
