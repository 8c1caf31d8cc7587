"""Where the servers are and how to get in: from the URL and the settings to what the client library is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar
from urllib.parse import quote

from yarl import URL

from fencepost.brokers.rabbitmq.settings import Settings
from fencepost.servers import Servers, shown


class Address(Servers):
    """The nodes of a RabbitMQ; the path is the virtual host."""

    __slots__ = ()
    one = "a RabbitMQ server"
    ports: ClassVar[Mapping[str, int]] = {"amqp": 5672, "rabbitmq": 5672, "amqps": 5671}
    example = "write amqp://user:password@host:5672/vhost, several hosts with commas between them"
    page = "docs/rabbitmq.md"

    def urls(self, settings: Settings) -> Iterator[URL]:
        """What the client library is given, for each server."""
        user, password = settings.user or self.user or "guest", settings.password or self.password or "guest"
        scheme = "amqps" if self.tls or settings.tls else "amqp"
        login = f"{quote(user, safe='')}:{quote(password, safe='')}"
        terms = f"heartbeat={settings.heartbeat_s}&name=fencepost"
        vhost = quote(self.path or "/", safe="")
        for server in self.servers:
            yield URL(f"{scheme}://{login}@{shown(server)}/{vhost}?{terms}", encoded=True)
