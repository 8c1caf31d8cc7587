"""Servers that are down, stuck, restarted, locked or not what was expected: a deadline, and the right family."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    Fenced,
    FixError,
    MissingExtra,
    RetryError,
)
from fencepost.ports import Delivery, Lane
from tests.brokers.nats_kit import OwnNats, Place
from tests.brokers.rows import payloads, row, rows, term
from tests.services import free_port, needed

Start = Callable[..., Place]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnNats]:
    """A server of the test's own, running."""
    with OwnNats(tmp_path).running() as one:
        yield one


@pytest.fixture
def place(server: OwnNats, fresh_name: str) -> Place:
    """A stream of its own there."""
    return Place(server.url, fresh_name)


@pytest.fixture
def start(tmp_path: Path, fresh_name: str) -> Iterator[Start]:
    """Start a server with this configuration; the place for a stream of its own there."""
    with ExitStack() as servers:

        def started(config: str, *, jetstream: bool = True) -> Place:
            one = OwnNats(tmp_path / str(len(list(tmp_path.iterdir()))), config, jetstream=jetstream)
            return Place(servers.enter_context(one.running()).url, fresh_name)

        yield started


# -- not there, not ready ------------------------------------------------------------------------------------------


async def test_a_name_that_does_not_resolve(fresh_name: str) -> None:
    broker = Place("nats://no-such-host.invalid", fresh_name).broker(timeout_s=10)
    with pytest.raises(RetryError, match=r"no-such-host\.invalid"):
        await broker.open()
    await broker.close()


async def test_the_second_server_of_a_list_is_used(place: Place) -> None:
    place.url = f"nats://127.0.0.1:{free_port()},{place.url}"
    broker = place.broker()
    assert (await broker.open()).delivery is Delivery.ATOMIC
    await broker.close()


async def test_a_server_without_jetstream(start: Start) -> None:
    place = start("", jetstream=False)
    broker = place.broker()
    with pytest.raises(FixError, match="JetStream") as caught:
        await broker.open()
    assert "nats-server -js" in caught.value.remedy
    await broker.close()


async def test_an_account_without_jetstream(start: Start) -> None:
    place = start("accounts { A { users: [{user: a, password: b}] } }")
    place.settings = {"user": "a", "password": "b"}
    broker = place.broker()
    with pytest.raises(FixError, match="JetStream"):
        await broker.open()
    await broker.close()


async def test_a_domain_that_is_not_there(place: Place) -> None:
    broker = place.broker(domain="elsewhere")
    with pytest.raises(FixError, match="JetStream"):
        await broker.open()
    await broker.close()


async def test_a_domain_that_is_there(start: Start) -> None:
    place = start("jetstream { domain: hub }")
    async with place.handoff(domain="hub") as handoff:
        await handoff.publish([row(1)])


async def test_a_small_limit_of_the_server_makes_batches_small(start: Start) -> None:
    """The receipt must fit into one message too."""
    place = start("max_payload: 8192")
    async with place.opened() as broker:
        found = await broker.open()
        assert (found.message_bytes_max, found.batch_max) == (8192, 224)
        handoff = await broker.take_over(place.lane, term())
        far_apart = [row(2**62 + 3 * i) for i in range(224)]
        assert list((await handoff.publish(far_apart)).published) == far_apart
        with pytest.raises(ConfigurationError, match="the receipt of 900 messages"):
            await handoff.publish([row(2**62 + 3 * i) for i in range(900)])
    assert await place.payloads() == payloads(far_apart)


async def test_replicas_need_a_cluster(place: Place) -> None:
    broker = place.broker(replicas=3)
    await broker.open()
    with pytest.raises(ConfigurationError, match="replicas"):
        await broker.prepare(place.lane)
    await broker.close()


# -- who may -------------------------------------------------------------------------------------------------------

PASSWORD = 'authorization { user: relay, password: "right horse" }'


@pytest.mark.parametrize("settings", [{}, {"user": "relay"}, {"user": "relay", "password": "wrong horse"}])
async def test_wrong_credentials(start: Start, settings: dict[str, Any]) -> None:
    place = start(PASSWORD)
    broker = place.broker(**settings)
    with pytest.raises(AccessDenied) as caught:
        await broker.open()
    assert "horse" not in str(caught.value)
    await broker.close()


async def test_right_credentials_by_settings_and_in_the_url(start: Start) -> None:
    place = start(PASSWORD)
    async with place.opened(user="relay", password="right horse"):
        pass
    place.url = place.url.replace("nats://", "nats://relay:right%20horse@")
    async with place.opened():
        pass


async def test_a_token(start: Start) -> None:
    place = start('authorization { token: "12345" }')
    async with place.opened(token=12345):
        pass
    place.url = place.url.replace("nats://", "nats://12345@")
    async with place.opened():
        pass
    broker = place.broker(token="54321")
    with pytest.raises(AccessDenied):
        await broker.open()
    await broker.close()


async def test_an_nkey(start: Start, tmp_path: Path) -> None:
    nkeys = pytest.importorskip("nkeys")
    pair = nkeys.from_seed(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))
    place = start(f"authorization {{ users: [ {{ nkey: {pair.public_key.decode()} }} ] }}")
    seed = tmp_path / "seed"
    seed.write_bytes(pair.seed)
    async with place.opened(nkey_seed=str(seed)):
        pass


async def test_credentials_need_a_library(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = tmp_path / "seed"
    seed.write_text("SUAMK")
    monkeypatch.setitem(sys.modules, "nkeys", None)
    broker = place.broker(nkey_seed=str(seed))
    with pytest.raises(MissingExtra, match="nkeys"):
        await broker.open()
    await broker.close()


PERMISSIONS = """authorization { users: [
    { user: admin, password: a }
    { user: relay, password: b, permissions: { publish: { deny: ["%s"] } } }
] }"""


async def test_a_subject_that_the_user_may_not_publish_on(start: Start, fresh_name: str) -> None:
    place = start(PERMISSIONS % f"{fresh_name}.secret")
    place.settings = {"user": "relay", "password": "b", "subjects": [f"{fresh_name}.>"]}
    async with place.handoff() as handoff:
        await handoff.publish([row(1)])
        began = time.monotonic()
        with pytest.raises(AccessDenied, match=f"{fresh_name}.secret"):
            await handoff.publish([row(2), row(3, "secret"), row(4)])
        assert time.monotonic() - began < 5, "not only when the deadline is over"
    place.url = place.url.replace("nats://", "nats://admin:a@")
    assert await place.payloads() == [b"payload 1"]


async def test_an_api_that_the_user_may_not_ask(start: Start, fresh_name: str) -> None:
    place = start(PERMISSIONS % f"$JS.API.STREAM.CREATE.{fresh_name}")
    broker = place.broker(user="relay", password="b")
    await broker.open()
    with pytest.raises(AccessDenied, match=rf"(?i)STREAM\.CREATE\.{fresh_name}"):
        await broker.prepare(place.lane)
    await broker.close()


async def test_answers_need_an_inbox_that_the_user_may_hear(start: Start) -> None:
    permissions = 'permissions: { subscribe: { allow: ["_relay.>"] } }'
    place = start(f"authorization {{ users: [ {{ user: relay, password: b, {permissions} }} ] }}")
    place.settings = {"user": "relay", "password": "b"}
    broker = place.broker()
    began = time.monotonic()
    with pytest.raises(AccessDenied, match=r"(?i)_INBOX"):
        await broker.open()
    assert time.monotonic() - began < 5
    await broker.close()
    async with place.handoff(inbox_prefix="_relay") as handoff:
        await handoff.publish(rows(3))
        assert handoff.receipts.ranges() == [(1, 3)]


# -- encryption ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    made, key = tmp_path / "server.pem", tmp_path / "server.key"
    command = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1 -keyout"
    process = await asyncio.create_subprocess_exec(
        needed("openssl"), *command.split(), str(key), "-out", str(made), stderr=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0
    return made, key


async def test_tls(start: Start, certificate: tuple[Path, Path]) -> None:
    made, key = certificate
    place = start(f'tls {{ cert_file: "{made}", key_file: "{key}" }}')
    batch = rows(200)
    async with place.handoff(tls_ca=str(made)) as handoff:
        assert list((await handoff.publish(batch)).published) == batch
    for url in (place.url, place.url.replace("nats://", "nats+tls://")):
        place.url = url
        broker = place.broker()
        with pytest.raises(FixError, match="certificate verify failed"):
            await broker.open()
        await broker.close()


async def test_tls_that_the_server_does_not_offer(place: Place, certificate: tuple[Path, Path]) -> None:
    plain = place.url
    cases: list[tuple[str, dict[str, Any]]] = [
        (plain, {"tls_ca": str(certificate[0])}),
        (plain.replace("nats://", "nats+tls://"), {}),
    ]
    for url, settings in cases:
        place.url = url
        broker = place.broker(**settings)
        with pytest.raises(FixError, match="TLS"):
            await broker.open()
        await broker.close()


async def test_tls_files_that_are_none(place: Place, tmp_path: Path) -> None:
    rubbish = tmp_path / "ca.pem"
    rubbish.write_text("not a certificate")
    broker = place.broker(tls_ca=str(rubbish))
    with pytest.raises(ConfigurationError, match=f"tls_ca = '{rubbish}' cannot be used"):
        await broker.open()
    await broker.close()


# -- stuck and restarted -------------------------------------------------------------------------------------------


async def test_a_stuck_server_has_a_deadline_everywhere(server: OwnNats, place: Place) -> None:
    """D4."""
    async with place.opened(timeout_s=1.0) as broker, place.opened(timeout_s=1.0) as other:
        handoff = await broker.take_over(place.lane, term())
        await handoff.publish([row(1)])
        server.send_signal(signal.SIGSTOP)
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: handoff.publish(rows(900, start=2)),
            lambda: broker.take_over(place.lane, term(2)),
            lambda: broker.prepare(place.lane),
            lambda: other.take_over(place.lane, term(3)),
            lambda: place.broker(timeout_s=1.0).open(),
        ]
        for call in calls:
            began = time.monotonic()
            with pytest.raises(DeadlineExceeded):
                await call()
            assert time.monotonic() - began < 8
        await broker.close()
        server.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("pause_after", ["before", "while"])
async def test_after_a_pause_the_take_over_tells_what_happened(server: OwnNats, place: Place, pause_after: str) -> None:
    """Whether the batch arrived is unknown until the take-over: then it is there whole with its receipt, or never."""
    batch = rows(500)
    place.settings = {"subjects": [f"{place.name}.>"]}  # so that the pause meets the batch, not a change of the stream
    async with place.opened(timeout_s=1.0) as broker:
        handoff = await broker.take_over(place.lane, term())
        if pause_after == "before":
            server.send_signal(signal.SIGSTOP)
        publishing = asyncio.create_task(handoff.publish(batch))
        if pause_after == "while":
            await asyncio.sleep(0.004)
            server.send_signal(signal.SIGSTOP)
        (result,) = await asyncio.gather(publishing, return_exceptions=True)
        server.send_signal(signal.SIGCONT)
        if isinstance(result, BaseException):
            assert isinstance(result, DeadlineExceeded)
            with pytest.raises(ConnectionLost):
                await handoff.publish(batch)
        successor = await broker.take_over(place.lane, term(2))
        if successor.receipts.ranges() != [(1, 500)]:
            assert len(successor.receipts) == 0
            await successor.publish(batch)
    assert await place.payloads() == payloads(batch)


async def test_an_overdue_batch_is_not_sent_later(server: OwnNats, place: Place) -> None:
    """What a stuck server has not taken from the socket is dropped with the connection."""
    batch = [row(i, payload=b"x" * 900_000) for i in range(1, 9)]
    async with place.opened(timeout_s=0.5) as broker:
        handoff = await broker.take_over(place.lane, term())
        server.send_signal(signal.SIGSTOP)
        with pytest.raises(DeadlineExceeded):
            await handoff.publish(batch)
        server.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.3)
    assert await place.published() == []
    assert len(await place.kept()) == 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_restarted_server(server: OwnNats, place: Place, how: int) -> None:
    first, second = rows(20), rows(20, start=100)
    async with place.opened() as broker:
        handoff = await broker.take_over(place.lane, term())
        await handoff.publish(first)
        server.stop(how)
        with pytest.raises(RetryError):
            await handoff.publish(second)
        with pytest.raises(RetryError):
            await broker.take_over(place.lane, term(2))
        server.start()
        with pytest.raises(ConnectionLost):
            await handoff.publish(second)
        successor = await broker.take_over(place.lane, term(3))
        assert successor.receipts.ranges() == [(1, 20)]
        await successor.publish(second)
    assert await place.payloads() == payloads([*first, *second])


@pytest.mark.torture
async def test_a_server_killed_in_the_middle_of_batches(server: OwnNats, place: Place) -> None:
    """Each batch is there whole with its receipt, or not at all, whatever moment the server dies at."""
    expected: list[bytes] = []
    async with place.opened(timeout_s=10) as broker:
        for turn in range(6):
            batch = rows(900, start=1000 * turn)
            handoff = await broker.take_over(place.lane, term())
            publishing = asyncio.create_task(handoff.publish(batch))
            await asyncio.sleep(0.002 + 0.006 * turn)
            server.kill()
            (result,) = await asyncio.gather(publishing, return_exceptions=True)
            assert not isinstance(result, BaseException) or isinstance(result, RetryError)
            server.start()
            successor = await broker.take_over(place.lane, term())
            named = {position for position, _ in successor.receipts.named()}
            if batch[0].position in named or not isinstance(result, BaseException):
                assert {m.position for m in batch} <= named
                expected += payloads(batch)
            assert await place.payloads() == expected


async def test_losing_the_connection_in_mid_publish_is_noticed_at_once(server: OwnNats, place: Place) -> None:
    async with place.handoff(timeout_s=30) as handoff:
        server.send_signal(signal.SIGSTOP)
        publishing = asyncio.create_task(handoff.publish(rows(100)))
        await asyncio.sleep(0.1)
        began = time.monotonic()
        server.kill()
        with pytest.raises(ConnectionLost):
            await publishing
        assert time.monotonic() - began < 5
        server.start()


async def test_one_lanes_trouble_is_the_connections(server: OwnNats, place: Place) -> None:
    """An answer that is overdue ends the connection for all lanes; each takes over again."""
    lanes = [Lane(place.name, i) for i in range(2)]
    place.settings = {"subjects": [f"{place.name}.>"]}
    async with place.opened(timeout_s=0.5) as broker:
        one, two = [await broker.take_over(lane, term()) for lane in lanes]
        server.send_signal(signal.SIGSTOP)
        with pytest.raises(DeadlineExceeded):
            await one.publish([row(1)])
        with pytest.raises(ConnectionLost):
            await two.publish([row(2)])
        server.send_signal(signal.SIGCONT)
        one, two = [await broker.take_over(lane, term()) for lane in lanes]
        await two.publish([row(2)])


async def test_closing_never_raises(server: OwnNats, place: Place) -> None:
    broker = place.broker(timeout_s=0.5)
    await broker.close()
    await broker.open()
    handoff = await broker.take_over(place.lane, term())
    server.send_signal(signal.SIGSTOP)
    await broker.close()
    await broker.close()
    await handoff.close()
    with pytest.raises(RetryError):
        await handoff.publish([row(1)])
    server.send_signal(signal.SIGCONT)
    server.kill()
    await broker.close()


async def test_an_owner_that_slept_through_a_take_over_is_refused(server: OwnNats, place: Place) -> None:
    """A10, with a server that restarts in between."""
    async with place.opened() as sleeper:
        old = await sleeper.take_over(place.lane, term(1))
        async with place.handoff(2) as new:
            await new.publish([row(1)])
        with pytest.raises(Fenced):
            await old.publish(rows(999))
    assert await place.payloads() == [b"payload 1"]
