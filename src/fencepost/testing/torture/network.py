"""The proxies of a run: one line for each relay to each server, and one for the writers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import parse_qsl, urlsplit

from fencepost import plugins
from fencepost.clock import Clock
from fencepost.config import Config
from fencepost.testing.torture.kafka_addresses import Address, Redirected, is_replaceable
from fencepost.testing.torture.proxy import Link, Translate, Trouble

_PORTS = {
    "mariadb": 3306,
    "mongodb": 27017,
    "mysql": 3306,
    "postgresql": 5432,
    "redis": 6379,
    "nats": 4222,
    "rabbitmq": 5672,
    "mqtt": 1883,
    "kafka": 9092,
}
_VERIFIED = {"verify-ca", "verify-full"}
_KAFKA_S = 20.0


class Line:
    """Everything between one party and one server: a link for each of the server's addresses. ``url`` leads through."""

    def __init__(self, links: Sequence[Link], url: str) -> None:
        self.links, self.url = links, url

    def begin(self, trouble: Trouble) -> None:
        """See Link."""
        for link in self.links:
            link.begin(trouble)

    def end(self, trouble: Trouble) -> None:
        """See Link."""
        for link in self.links:
            link.end(trouble)

    def own_ports(self) -> list[int]:
        """See Link."""
        return [port for link in self.links for port in link.own_ports()]


@dataclass(frozen=True, slots=True)
class Route:
    """How to lay lines to a server. ``why_not`` says why that is impossible; "" where it is possible."""

    url: str = ""
    targets: tuple[Address, ...] = ()
    why_not: str = ""
    rewrites: bool = False
    """The server tells its clients where it is, and what it tells must be changed (Kafka)."""

    async def lay(self, stack: AsyncExitStack, clock: Clock) -> Line:
        """A new line, closed with the stack."""
        links: list[Link] = []
        ports: dict[Address, int] = {}
        translator: Callable[[], Translate] | None = partial(Redirected, ports) if self.rewrites else None
        for target in self.targets:
            link = Link(target, clock, translator)
            await link.open()
            stack.push_async_callback(link.close)
            ports[target] = link.port
            links.append(link)
        return Line(links, _through(self.url, list(ports.values())))


async def route_to_database(config: Config) -> Route:
    """The way to the database of a configuration."""
    return _database_route(config.database.url)


def _database_route(url: str) -> Route:
    name = plugins.name_of("database", url)
    if name == "redis":
        return _redis_route(url)
    if name == "dynamodb":
        return _aws_route(url)
    if name in {"mariadb", "mysql"}:
        return _mariadb_route(url)
    if name in {"mongodb", "mongodb-embedded"}:
        return _mongodb_route(url)
    if name != "postgresql":
        return Route(why_not="the database is a file")
    terms = dict(parse_qsl(urlsplit(url).query))
    if terms.get("sslmode", "") in _VERIFIED:
        return Route(why_not=f"sslmode={terms['sslmode']} does not accept a proxy")
    targets = _addresses(url, _PORTS["postgresql"])
    if not targets or "host" in terms:
        return Route(why_not="the URL names no host and port")
    return Route(url, targets)


def _mariadb_route(url: str) -> Route:
    if "ssl_ca=" in url or "ssl_capath=" in url or "unix_socket=" in url:
        return Route(why_not="a certificate that is checked, or a socket file, does not accept a proxy")
    return Route(url, _addresses(url, _PORTS["mariadb"]))


def _mongodb_route(url: str) -> Route:
    if "directconnection=true" not in url.lower() or "tls=true" in url.lower():
        return Route(why_not="a proxy needs directConnection=true in the URL, and no TLS: members name their addresses")
    return Route(url, _addresses(url, _PORTS["mongodb"]))


def _redis_route(url: str) -> Route:
    if not url.startswith("redis://"):
        return Route(why_not="only a Redis that is named by its address, without TLS, is reached through a proxy")
    return Route(url, _addresses(url, _PORTS["redis"]))


def _aws_route(url: str, _: Mapping[str, object] | None = None) -> Route:
    endpoint = _ENDPOINT.search(url)
    if endpoint is None or not endpoint[1].startswith("http://"):
        return Route(why_not="only a server of one's own, without TLS, is reached through a proxy")
    return Route(url, _addresses(endpoint[1], 80))


async def route_to_broker(config: Config) -> Route:
    """The way to the broker of a configuration."""
    url, settings = config.broker.url, config.broker.settings
    name = plugins.name_of("broker", plugins.spoken(url))
    if name == "kafka":
        if "SSL" in str(settings.get("security.protocol", "")).replace("SASL", ""):
            return Route(why_not="Kafka's answers, in which its nodes say where they are, are encrypted")
        return await asyncio.to_thread(_kafka_route, url, settings)
    if name == "nats":
        if "tls" in url.partition("://")[0] or url.startswith("wss") or any(key.startswith("tls_") for key in settings):
            return Route(why_not="TLS does not accept a proxy")
        return Route(url, _addresses(url, _PORTS["nats"]))
    if name == "redis":
        return _redis_route(url)
    if name in {"mqtt", "rabbitmq"}:
        if url.startswith(("amqps:", "mqtts:")) or any(key.startswith("tls_") for key in settings):
            return Route(why_not="TLS does not accept a proxy")
        return Route(url, _addresses(url, _PORTS[name]))
    if name in _HTTP_ROUTES:
        return _HTTP_ROUTES[name](url, settings)
    if name == "sql":
        inbox, _, database = url.partition("+")
        route = _database_route(database)
        return replace(route, url=f"{inbox}+{route.url}")
    return Route(why_not="the broker is a file" if name == "file" else f"no proxy is known for {name}")


def _http_route(url: str, settings: Mapping[str, object]) -> Route:
    if url.startswith("https") or any(key.startswith("targets.") for key in settings):
        return Route(why_not="only one target, without TLS, is reached through a proxy")
    return Route(url, _addresses(url, 80))


_HTTP_ROUTES: Mapping[str, Callable[[str, Mapping[str, object]], Route]] = {
    "http": _http_route,
    "sns": _aws_route,
    "sqs": _aws_route,
}


def _kafka_route(url: str, settings: Mapping[str, object]) -> Route:
    """Every node of the cluster, where it says that it is."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    options = {name: str(value) for name, value in settings.items() if "." in name}
    admin = AdminClient({**options, "bootstrap.servers": url.partition("://")[2]})
    try:
        nodes = admin.list_topics(timeout=_KAFKA_S).brokers.values()
    except KafkaException as error:
        return Route(why_not=f"Kafka does not say where its nodes are: {error.args[0].str()}")
    targets = tuple((str(node.host), node.port) for node in nodes)
    if not all(map(is_replaceable, targets)):
        return Route(why_not="a node's host name is too short to be replaced by another of its length")
    return Route(url, targets, rewrites=True)


_ENDPOINT = re.compile(r"(?<=[?&]endpoint=)([^&#]*)")
_URL = re.compile(r"(?P<scheme>[^:]+)://(?:(?P<user>[^@/]*)@)?(?P<places>[^/?]*)(?P<rest>.*)\Z", re.DOTALL)


def _addresses(url: str, default_port: int) -> tuple[Address, ...]:
    """Host and port of each server in a URL, which may name several with commas between them."""
    servers = [part.rpartition("://")[2] for part in url.partition("?")[0].split(",")]
    parts = [urlsplit(f"//{server.rpartition('@')[2].partition('/')[0]}") for server in servers]
    return tuple((part.hostname, part.port or default_port) for part in parts if part.hostname)


def _through(url: str, ports: Sequence[int]) -> str:
    """The URL with other addresses: user, path and parameters stay."""
    if _ENDPOINT.search(url):
        return _ENDPOINT.sub(f"http://127.0.0.1:{ports[0]}", url)
    found = _URL.match(url)
    assert found is not None, "a URL whose plug-in is known has a scheme"
    user = f"{found['user']}@" if found["user"] else ""
    rest = "" if found["rest"].startswith("//") else found["rest"]  # "//": of the scheme of a second server
    return f"{found['scheme']}://{user}{','.join(f'127.0.0.1:{port}' for port in ports)}{rest}"
