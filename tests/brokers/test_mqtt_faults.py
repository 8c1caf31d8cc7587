"""An MQTT server that is down, stuck, cut off, strict with its users or another one: servers of the tests' own."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fencepost.brokers.mqtt.link import Link
from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import (
    AccessDenied,
    ConnectionLost,
    DeadlineExceeded,
    Fenced,
    FixError,
    ParkError,
    RetryError,
    Unavailable,
)
from fencepost.message import Stored
from fencepost.ports import Failure
from fencepost.testing.torture.proxy import Link as ProxyLink
from servers.ports import HOST
from tests.brokers.mqtt_kit import USERS, OwnMosquitto, Place, Subscriber, pairs
from tests.brokers.rows import row, rows, term
from tests.services import free_port, needed

LIMIT_BYTES = 20_000
"""Of a payload at the server with users; it does not tell it."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnMosquitto]:
    """One that a test may stop and kill."""
    with OwnMosquitto(tmp_path).running() as one:
        yield one


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnMosquitto]:
    """One with users and TLS."""
    folder = tmp_path_factory.mktemp("mosquitto")
    make_certificates(folder)
    with OwnMosquitto(folder, f"message_size_limit {LIMIT_BYTES}\n{USERS}{TLS}").running() as one:
        yield one


TLS = f"""\
listener {{tls}} {HOST}
cafile {{folder}}/ca.pem
certfile {{folder}}/server.pem
keyfile {{folder}}/server.key
"""


def make_certificates(folder: Path) -> None:
    """An authority, and a certificate of the server's name that it has signed."""
    program = needed("openssl")

    def openssl(arguments: str) -> None:
        subprocess.run([program, *arguments.split()], cwd=folder, check=True, capture_output=True)

    openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=authority -days 2")
    openssl("req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost")
    (folder / "names").write_text("subjectAltName = DNS:localhost, IP:127.0.0.1\n")
    openssl("x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -days 2 -out server.pem")
    (folder / "server.key").chmod(0o644)
    folder.chmod(0o755)


# -- not there -----------------------------------------------------------------------------------------------------


async def test_the_second_server_of_a_list_is_used(server: OwnMosquitto, fresh_name: str) -> None:
    url = server.url().replace("mqtt://", f"mqtt://{HOST}:{free_port()},")
    async with Place(url, fresh_name).handoff(allow_no_subscribers=True) as handoff:
        assert len((await handoff.publish(rows(3))).published) == 3


@pytest.mark.parametrize("delay_s", [0.0, 0.3])
async def test_an_attempt_to_connect_that_is_broken_off_leaves_nothing_open(
    fresh_name: str, monkeypatch: pytest.MonkeyPatch, delay_s: float
) -> None:
    """In the middle of the server's answer, or of the thread in which the library connects."""
    ended, connect = asyncio.Event(), Link._connect_blocking

    def slowly(link: Link) -> None:
        time.sleep(delay_s)
        connect(link)

    monkeypatch.setattr(Link, "_connect_blocking", slowly)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(1_000):
                pass
        except ConnectionError:
            pass  # the client gave up, as it should
        ended.set()
        writer.close()

    async with await asyncio.start_server(say_nothing, HOST, 0) as silent:
        broker = Place(f"mqtt://{HOST}:{silent.sockets[0].getsockname()[1]}", fresh_name).broker(timeout_s=20)
        taking = asyncio.ensure_future(broker.take_over(Place("", fresh_name).lane, term()))
        await asyncio.sleep(0.1)
        await broker.close()
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(taking, 5)
        await asyncio.wait_for(ended.wait(), 5)


# -- not for us ----------------------------------------------------------------------------------------------------


async def test_a_wrong_password(strict: OwnMosquitto, fresh_name: str) -> None:
    for url in (strict.url("writer").replace("p%40ss", "secret-word"), strict.url()):
        broker = Place(url, fresh_name).broker()
        with pytest.raises(AccessDenied, match="0x8") as caught:
            await broker.open()
        assert "secret-word" not in str(caught.value)
        await broker.close()


async def test_a_topic_that_is_not_permitted_waits_alone(strict: OwnMosquitto, fresh_name: str) -> None:
    """Mosquitto 2.0.11 hangs up after it has said so, and what it said may be lost with the connection."""
    topic = f"open/{fresh_name}"
    closed, permitted = rows(3, topic="closed"), rows(3, start=10, topic=topic)
    async with Subscriber(strict.url("reader"), topic) as subscriber:
        failed = await deliver(Place(strict.url("writer"), fresh_name), [*closed, *permitted])
        assert {f.message.topic for f in failed} == {"closed"}
        assert {(type(f.error), f.whole_topic) for f in failed} == {(AccessDenied, True)}
        assert "permit the relay's user" in str(failed[0].error)
        await until(lambda: set(subscriber.ids) == {m.id for m in permitted})


async def test_a_message_that_the_server_finds_too_large_though_it_told_no_limit(
    strict: OwnMosquitto, fresh_name: str
) -> None:
    """E1: what Mosquitto answers then is no answer of the protocol. It is found by sending what was under way alone."""
    topic = f"open/{fresh_name}"
    batch = [row(1, topic, key="a"), row(2, topic, key="large", payload=bytes(LIMIT_BYTES + 1)), row(3, topic, key="b")]
    place = Place(strict.url("writer"), fresh_name)
    async with Subscriber(strict.url("reader"), topic) as subscriber:
        (failure,) = await deliver(place, batch)
        assert failure.message == batch[1]
        assert isinstance(failure.error, ParkError)
        await until(lambda: set(subscriber.ids) == {batch[0].id, batch[2].id})
    async with place.handoff(packet_bytes_max=LIMIT_BYTES, allow_no_subscribers=True) as handoff:
        outcome = await handoff.publish(batch)
        assert outcome.published == [batch[0], batch[2]]


async def deliver(place: Place, batch: Sequence[Stored]) -> list[Failure]:
    """Publish as a relay does, taking over again after trouble. What failed is set aside, or its whole topic."""
    failed: list[Failure] = []
    broker, rest = place.broker(), list(batch)
    try:
        for token in range(10):
            handoff = await broker.take_over(place.lane, term(token))
            try:
                while rest:
                    outcome = await handoff.publish(rest)
                    failed += outcome.failed
                    done = {m.position for m in [*outcome.published, *[f.message for f in outcome.failed]]}
                    held = {f.message.topic for f in outcome.failed if f.whole_topic}
                    rest = [m for m in rest if m.position not in done and m.topic not in held]
            except RetryError:
                await handoff.close()
                continue
            return failed
        raise AssertionError(f"ten take-overs, and {len(rest)} messages are left")
    finally:
        await broker.close()


async def test_tls(strict: OwnMosquitto, fresh_name: str) -> None:
    folder, port = strict.place.folder, strict.place.ports["tls"]
    plain = strict.url("writer")
    secure = plain.replace("mqtt:", "mqtts:").replace(str(strict.port), str(port))
    topic, authority = f"open/{fresh_name}", str(folder / "ca.pem")
    batch = rows(50, topic=topic)
    place = Place(secure, fresh_name)
    async with Subscriber(strict.url("reader"), topic) as subscriber:
        async with place.handoff(tls_ca=authority, timeout_s=10) as handoff:
            assert (await handoff.publish(batch)).published == batch
        await subscriber.get(50)
        assert pairs(subscriber.ids, batch) == pairs([m.id for m in batch], batch)
    for url, settings, said in (
        (secure, {}, "CERTIFICATE_VERIFY_FAILED"),
        (plain, {"tls_ca": authority}, "connecting to the MQTT server"),
    ):
        broker = Place(url, fresh_name).broker(timeout_s=5, **settings)
        with pytest.raises((FixError, RetryError), match=said):
            await broker.open()
        await broker.close()


# -- stuck, cut off, taken over ------------------------------------------------------------------------------------


async def test_a_server_that_stops_answering(server: OwnMosquitto, fresh_name: str) -> None:
    """B7: a deadline, and nothing that hangs afterwards."""
    place = Place(server.url(), fresh_name)
    broker = place.broker(timeout_s=0.5, allow_no_subscribers=True)
    handoff = await broker.take_over(place.lane, term())
    assert len((await handoff.publish(rows(1))).published) == 1
    began = time.monotonic()
    with server.stopped():
        with pytest.raises(DeadlineExceeded, match=r"0\.5 s"):
            await handoff.publish(rows(3))
        with pytest.raises(ConnectionLost):
            await handoff.publish(rows(3))
        with pytest.raises(DeadlineExceeded):
            await broker.take_over(place.lane, term())
        await handoff.close()
        await broker.close()
    assert time.monotonic() - began < 5


async def test_what_is_given_up_is_not_sent_later(server: OwnMosquitto, fresh_name: str) -> None:
    """A10: a stuck server that goes on must not find messages of an owner that has given up."""
    place = Place(server.url(), fresh_name)
    large = rows(3, topic=fresh_name, payload=bytes(3_000_000))  # more than the buffers between us take
    async with Subscriber(server.url(), fresh_name) as subscriber, place.handoff(timeout_s=0.5) as handoff:
        with server.stopped(), pytest.raises(DeadlineExceeded):
            await handoff.publish(large)
        async with place.handoff() as later:
            (mark,) = rows(1, start=9, topic=fresh_name)
            await later.publish([mark])
        await subscriber.get(1)
        assert subscriber.ids == [mark.id]


async def test_a_publish_that_is_cancelled_cuts_the_connection(server: OwnMosquitto, fresh_name: str) -> None:
    async with Place(server.url(), fresh_name).handoff(allow_no_subscribers=True) as handoff:
        with server.stopped():
            publishing = asyncio.ensure_future(handoff.publish(rows(3)))
            await asyncio.sleep(0.05)
            publishing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await publishing
        assert not handoff.link.alive
        with pytest.raises(ConnectionLost):
            await handoff.publish(rows(3))


async def test_closing_ends_a_publish_that_waits(server: OwnMosquitto, fresh_name: str) -> None:
    place = Place(server.url(), fresh_name)
    broker = place.broker(allow_no_subscribers=True)
    handoff = await broker.take_over(place.lane, term())
    with server.stopped():
        publishing = asyncio.ensure_future(handoff.publish(rows(3)))
        await asyncio.sleep(0.05)
        await broker.close()
        with pytest.raises(ConnectionLost, match="closed"):
            await asyncio.wait_for(publishing, 2)


async def test_whoever_takes_over_ends_the_earlier_owner(server: OwnMosquitto, fresh_name: str) -> None:
    """A10: only that of the same lane. Mosquitto hangs up; others say why."""
    place = Place(server.url(), fresh_name)
    async with place.handoff(allow_no_subscribers=True) as old, place.handoff(allow_no_subscribers=True) as new:
        await until(lambda: not old.link.alive)
        with pytest.raises((Fenced, ConnectionLost)):
            await old.publish(rows(3))
        assert len((await new.publish(rows(3))).published) == 3
        other = Place(server.url(), f"{fresh_name}-other")
        async with other.handoff(allow_no_subscribers=True):
            assert len((await new.publish(rows(3))).published) == 3


async def test_nothing_of_an_earlier_owner_arrives_after_a_take_over(server: OwnMosquitto, fresh_name: str) -> None:
    """A10: though it was sent before, and the server had not read it yet."""
    place, new_broker = Place(server.url(), fresh_name), Place(server.url(), fresh_name).broker()
    async with Subscriber(server.url(), fresh_name) as subscriber, place.handoff() as old:
        with server.stopped():
            late = asyncio.ensure_future(old.publish(rows(20, topic=fresh_name)))
            await asyncio.sleep(0.05)
            taking = asyncio.ensure_future(new_broker.take_over(place.lane, term(2)))
            await asyncio.sleep(0.1)
        new, (mark,) = await taking, rows(1, start=99, topic=fresh_name)
        await new.publish([mark])
        await asyncio.gather(late, return_exceptions=True)
        with pytest.raises((Fenced, ConnectionLost)):
            await old.publish(rows(3, start=50, topic=fresh_name))
        await until(lambda: mark.id in subscriber.ids)
        assert subscriber.ids[-1] == mark.id
        await new_broker.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
async def proxy(server: OwnMosquitto) -> AsyncIterator[ProxyLink]:
    """A way to the server that can be cut."""
    link = ProxyLink((HOST, server.port), SYSTEM_CLOCK)
    await link.open()
    yield link
    await link.close()


async def test_a_connection_that_is_cut_in_the_middle(server: OwnMosquitto, proxy: ProxyLink, fresh_name: str) -> None:
    """A5: all arrive, in order; what comes twice was sent without an answer before."""
    todo, place = rows(400, topic=fresh_name, keys=50), Place(f"mqtt://{HOST}:{proxy.port}", fresh_name)
    sent: list[str] = []
    async with Subscriber(server.url(), fresh_name) as subscriber:
        broker, takes, acknowledged, rest = place.broker(), 0, set[str](), list(todo)
        while rest:
            takes += 1
            cutting = asyncio.get_running_loop().call_later(0.02, proxy.reset) if takes < 5 else None
            try:
                handoff = await broker.take_over(place.lane, term(takes))
                while rest:
                    batch = list({m.key: m for m in reversed(rest[:200])}.values())
                    sent += [m.id for m in batch]
                    acknowledged |= {m.id for m in (await handoff.publish(batch)).published}
                    rest = [m for m in rest if m.id not in acknowledged]
            except RetryError:
                pass  # the next take-over
            finally:
                if cutting is not None:
                    cutting.cancel()
        await broker.close()
        await subscriber.get(400)
        await until(lambda: len(set(subscriber.ids)) == 400)
        assert takes > 1
        first = list(dict.fromkeys(subscriber.ids))
        assert pairs(first, todo) == pairs([m.id for m in todo], todo)
        came, went = Counter(subscriber.ids), Counter(sent)
        assert all(went[id_] >= count for id_, count in came.items())


async def test_a_server_that_is_killed_and_comes_back(server: OwnMosquitto, fresh_name: str) -> None:
    place = Place(server.url(), fresh_name)
    broker = place.broker(timeout_s=5, allow_no_subscribers=True)
    handoff = await broker.take_over(place.lane, term())
    publishing = asyncio.ensure_future(handoff.publish(rows(5_000)))
    await asyncio.sleep(0.05)
    server.kill()
    part = (await asyncio.gather(publishing, return_exceptions=True))[0]
    assert isinstance(part, ConnectionLost) or len(part.published) < 5_000  # type: ignore[union-attr]
    with pytest.raises(ConnectionLost):
        await handoff.publish(rows(1))
    with pytest.raises(Unavailable):
        await broker.take_over(place.lane, term())
    await asyncio.to_thread(server.start)
    handoff = await broker.take_over(place.lane, term())
    assert len((await handoff.publish(rows(3))).published) == 3
    await broker.close()
