"""The proxy does to connections what it says: cut, hold, half-open, slow, narrow; Kafka's addresses lead through it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fencepost.clock import SYSTEM_CLOCK
from fencepost.config import Config, load
from fencepost.demo.ports import free_port
from fencepost.testing.torture import network
from fencepost.testing.torture.kafka_addresses import Redirected, loopback
from fencepost.testing.torture.network import Route, route_to_broker, route_to_database
from fencepost.testing.torture.proxy import Link, Trouble, Way

PATIENCE_S = 10.0
NOTHING_S = 0.2


class Echo:
    """A server that answers every line with the same one; ``heard`` is what reached it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.resets = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.readline():
                self.heard.append(data)
                writer.write(data)
                await writer.drain()
        except ConnectionResetError:
            self.resets += 1
        finally:
            writer.close()


Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def proxied() -> AsyncIterator[tuple[Echo, Link]]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    link = Link(server.sockets[0].getsockname()[:2], SYSTEM_CLOCK)
    await link.open()
    try:
        yield echo, link
    finally:
        await link.close()
        server.close()


@asynccontextmanager
async def client(link: Link) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def asked(connection: Client, text: bytes) -> bytes:
    reader, writer = connection
    writer.write(text)
    async with asyncio.timeout(PATIENCE_S):
        return await reader.readline()


async def is_silent(connection: Client) -> bool:
    try:
        async with asyncio.timeout(NOTHING_S):
            await connection[0].readline()
    except TimeoutError:
        return True
    return False


async def is_reset(connection: Client) -> bool:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await connection[0].read() == b"" and False
    except ConnectionResetError:
        return True


async def test_everything_passes_in_both_directions_and_ends_are_handed_on() -> None:
    async with proxied() as (echo, link), client(link) as connection:
        assert await asked(connection, b"a\n") == b"a\n"
        assert len(link.own_ports()) == 1
        connection[1].write_eof()
        async with asyncio.timeout(PATIENCE_S):
            assert await connection[0].read() == b""
        assert echo.heard == [b"a\n"]


async def test_a_cut_resets_what_is_there_and_refuses_what_comes_until_it_is_over() -> None:
    cut = Trouble("cut")
    async with proxied() as (echo, link), client(link) as first:
        assert await asked(first, b"a\n") == b"a\n"
        link.begin(cut)
        assert await is_reset(first)
        async with asyncio.timeout(PATIENCE_S):
            while not echo.resets:  # the server learns of it, too
                await asyncio.sleep(0.01)
        async with client(link) as refused:
            assert await is_reset(refused)
        link.end(cut)
        async with client(link) as second:
            assert await asked(second, b"b\n") == b"b\n"
        assert echo.heard == [b"a\n", b"b\n"]


@pytest.mark.parametrize("way", ["both", "to server", "to client"])
async def test_what_is_held_comes_later_and_nothing_is_lost(way: Way) -> None:
    hold = Trouble("hold", way)
    async with proxied() as (echo, link), client(link) as connection:
        await asked(connection, b"a\n")
        link.begin(hold)
        connection[1].write(b"b\n")
        assert await is_silent(connection)
        assert (b"b\n" in echo.heard) is (way == "to client"), "the other direction stays open"
        link.end(hold)
        async with asyncio.timeout(PATIENCE_S):
            assert await connection[0].readline() == b"b\n"
        assert echo.heard == [b"a\n", b"b\n"]


@pytest.mark.parametrize("way", ["both", "to server", "to client"])
async def test_half_open_loses_one_direction_and_ends_with_a_reset(way: Way) -> None:
    half_open = Trouble("half-open", way)
    async with proxied() as (echo, link), client(link) as connection, client(link) as unharmed:
        await asked(connection, b"a\n")
        await asked(unharmed, b"u\n")
        link.begin(half_open)
        connection[1].write(b"b\n")
        assert await is_silent(connection)
        assert (b"b\n" in echo.heard) is (way == "to client"), "the server may have done what nobody is told of"
        link.end(half_open)
        assert await is_reset(connection)
        assert await asked(unharmed, b"v\n") == b"v\n", "it had sent nothing, so nothing was lost"
        assert echo.heard.count(b"b\n") == (way == "to client")


async def test_slow_delays_each_piece() -> None:
    slow = Trouble("slow", "both", delay_s=0.1)
    async with proxied() as (_, link), client(link) as connection:
        link.begin(slow)
        began = SYSTEM_CLOCK.monotonic()
        assert await asked(connection, b"a\n") == b"a\n"
        assert SYSTEM_CLOCK.monotonic() - began >= 0.2, "there and back"
        link.end(slow)


async def test_through_a_narrow_link_so_many_bytes_pass_per_second_whoever_sends_them() -> None:
    """Two connections share the width; each gets its own bytes, in their order."""
    lines = [b"%04d %s\n" % (number, b"x" * 1000) for number in range(4)]
    async with proxied() as (_, link), client(link) as one, client(link) as other:
        narrow = Trouble("narrow", "to server", bytes_per_s=20_000)
        link.begin(narrow)
        began = SYSTEM_CLOCK.monotonic()
        for _, writer in (one, other):
            writer.write(b"".join(lines))
        async with asyncio.timeout(PATIENCE_S):
            for reader, _ in (one, other):
                assert [await reader.readline() for _ in lines] == lines
        took_s = SYSTEM_CLOCK.monotonic() - began
        assert took_s >= 2 * sum(map(len, lines)) / 20_000 - 0.01
        link.end(narrow)
        began = SYSTEM_CLOCK.monotonic()
        assert await asked(one, b"a\n") == b"a\n"
        assert SYSTEM_CLOCK.monotonic() - began < took_s, "as wide as before"


async def test_a_server_that_is_away_ends_the_connection() -> None:
    async with proxied() as (_, link):
        nobody = Link(("127.0.0.1", 9), SYSTEM_CLOCK)
        await nobody.open()
        try:
            async with client(nobody) as connection, asyncio.timeout(PATIENCE_S):
                assert await connection[0].read() == b""
        finally:
            await nobody.close()
        assert link.port != nobody.port


# -- Kafka says where it is --------------------------------------------------------------------------------------------


def answer(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">i", len(body)) + body


def address(host: str, port: int) -> bytes:
    return host.encode() + struct.pack(">i", port)


async def test_the_address_of_the_loopback_has_any_length() -> None:
    loop = asyncio.get_running_loop()
    for characters in (5, 9, 24, 60):
        assert len(loopback(characters)) == characters
        found = await loop.getaddrinfo(loopback(characters), 80)
        assert {place[4][0] for place in found} == {"127.0.0.1"}


def test_addresses_in_answers_are_replaced_however_the_answers_are_cut_up() -> None:
    given = answer(b"before", address("kafka-1.example", 9092), b"after") + answer(address("kafka-2.example", 9093))
    wanted = answer(b"before", address(loopback(15), 4001), b"after") + answer(address(loopback(15), 4002))
    ports = {("kafka-1.example", 9092): 4001, ("kafka-2.example", 9093): 4002}
    for size in (1, 3, 7, len(given)):
        redirected = Redirected(ports)
        seen = b"".join(redirected(given[at : at + size]) for at in range(0, len(given), size))
        assert seen == wanted, size


# -- URLs --------------------------------------------------------------------------------------------------------------


def config(database: str, broker: str, **settings: str) -> Config:
    env = {"FENCEPOST_RELAY__NAME": "x", "FENCEPOST_DATABASE__URL": database, "FENCEPOST_BROKER__URL": broker}
    return load(None, env | {f"FENCEPOST_BROKER__{name}": value for name, value in settings.items()})


async def test_urls_lead_through_the_proxies() -> None:
    through = network._through
    assert through("postgresql://u:p%40@h:1/db?x=1", [7]) == "postgresql://u:p%40@127.0.0.1:7/db?x=1"
    assert through("postgresql://h/db", [7]) == "postgresql://127.0.0.1:7/db"
    assert through("kafka://a:1,b:2", [7, 8]) == "kafka://127.0.0.1:7,127.0.0.1:8"
    assert through("nats://u:p@a:1,nats://b:2", [7, 8]) == "nats://u:p@127.0.0.1:7,127.0.0.1:8"
    found = await route_to_broker(config("sqlite:///x.db", "nats://u:p@a,nats://b:2"))
    assert found.targets == (("a", 4222), ("b", 2))
    assert (await route_to_broker(config("sqlite:///x.db", "redis://u:p@a/3"))).targets == (("a", 6379),)
    assert (await route_to_database(config("postgresql://u@h1:1,h2/db", "nats://b"))).targets == (
        ("h1", 1),
        ("h2", 5432),
    )


async def test_where_a_proxy_cannot_be_it_is_said_why() -> None:
    async def to_database(url: str) -> Route:
        return await route_to_database(config(url, "nats://b"))

    assert "file" in (await to_database("sqlite:///x.db")).why_not
    assert "verify-full" in (await to_database("postgresql://u@h/db?sslmode=verify-full")).why_not
    assert "host" in (await to_database("postgresql:///db")).why_not
    assert "TLS" in (await route_to_broker(config("sqlite:///x.db", "nats+tls://b"))).why_not
    assert "TLS" in (await route_to_broker(config("sqlite:///x.db", "rediss://b"))).why_not
    tls = config("sqlite:///x.db", "kafka://b:9092", SECURITY__PROTOCOL="SASL_SSL")
    assert "encrypted" in (await route_to_broker(tls)).why_not


async def test_a_kafka_client_works_through_its_proxies_and_only_there(kafka_url: str) -> None:
    """Everything that the client learns about the cluster leads through: when they are gone, it reaches nothing."""
    from contextlib import AsyncExitStack

    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    async with AsyncExitStack() as stack:
        route = await route_to_broker(config("sqlite:///x.db", kafka_url))
        line = await route.lay(stack, SYSTEM_CLOCK)
        admin = AdminClient({"bootstrap.servers": line.url.removeprefix("kafka://"), "log_level": 0})
        nodes = (await asyncio.to_thread(admin.list_topics, timeout=PATIENCE_S)).brokers.values()
        assert {node.port for node in nodes} == {link.port for link in line.links}
        cut = Trouble("cut")
        line.begin(cut)
        with pytest.raises(KafkaException):
            await asyncio.to_thread(admin.list_topics, timeout=0.5)
        line.end(cut)
        assert (await asyncio.to_thread(admin.list_topics, timeout=PATIENCE_S)).brokers


def test_servers_that_are_restarted_are_not_on_ports_that_clients_are_given() -> None:
    """A client of a dead server on such a port may be connected to itself."""
    ports = {free_port(SYSTEM_CLOCK) for _ in range(50)}
    assert len(ports) > 40
    assert max(ports) < 32768 <= int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
