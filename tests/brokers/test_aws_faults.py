"""SQS and SNS that are down, stuck, started again or do not let us in: a server of the tests' own."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fencepost.errors import AccessDenied, DeadlineExceeded, RetryError
from tests.brokers.aws_kit import LANE, OwnMoto, Queues, made, owner
from tests.brokers.rows import row, term

BOTH = pytest.mark.parametrize("service", ["sqs", "sns"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnMoto]:
    with OwnMoto(tmp_path_factory.mktemp("moto")).running() as one:
        yield one


@BOTH
async def test_a_server_that_stops_answering(server: OwnMoto, service: str, fresh_name: str) -> None:
    """B7: a deadline, what is waited for ends with the broker, and nothing hangs afterwards."""
    broker = made(server.url(service), timeout_s=3)
    handoff = await broker.take_over(LANE, term())
    await handoff.publish([row(1, fresh_name)])
    with server.stopped():
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded, match=r"3 s|in time"):
            await handoff.publish([row(2, fresh_name)])
        assert 2.5 < time.monotonic() - began < 6
        with pytest.raises(RetryError):
            await handoff.publish([row(2, fresh_name)])
        waiting = asyncio.ensure_future((await broker.take_over(LANE, term(2))).publish([row(2, fresh_name)]))
        await asyncio.sleep(0.3)
        await asyncio.wait_for(broker.close(), 2)
        with pytest.raises(RetryError):
            await asyncio.wait_for(waiting, 1)
    async with owner(server.url(service)) as again:
        assert (await again.publish([row(3, fresh_name)])).published


async def test_a_server_that_is_slower_than_our_patience_gets_less_at_once(fresh_name: str) -> None:
    """One request at a time, so slowly that sixteen of them never end in time: what it has done counts all the same."""
    turn, ends = asyncio.Lock(), asyncio.Event()
    served: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not ends.is_set():
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                request = json.loads(await reader.readexactly(length))
                answer = {"QueueUrl": "http://queue"}
                if "Entries" in request:
                    async with turn:  # it works on what was given up, too
                        await asyncio.sleep(0.2)
                    served.append(request["Entries"][0]["Id"])
                    answer = {"Successful": [{"Id": e["Id"]} for e in request["Entries"]]}  # type: ignore[dict-item]
                body = json.dumps(answer).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client gave up, as it should
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"sqs://eu-west-1/?endpoint=http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    broker, waiting = made(url, publish_s=0.7), [row(n, fresh_name, key=f"k{n}") for n in range(100)]
    for token in range(20):
        handoff = await broker.take_over(LANE, term(token))
        with suppress(RetryError):
            outcome = await handoff.publish(waiting)
            waiting = [m for m in waiting if m not in outcome.published]
        await handoff.close()
        if not waiting:
            break
    assert not waiting
    assert len(served) < 40  # ten would do
    await broker.close()
    server.close()
    await asyncio.sleep(0.3)


async def test_a_batch_ends_in_its_time_and_says_how_far_it_came(server: OwnMoto, fresh_name: str) -> None:
    """The relay's own deadline would leave everything in doubt."""
    batch = [row(n, fresh_name) for n in range(1, 5000)]  # of one key: each message is a request of its own
    async with owner(server.url("sqs"), publish_s=1.0) as handoff:
        await handoff.publish(batch[:1])
        began = time.monotonic()
        outcome = await handoff.publish(batch[1:])
        assert time.monotonic() - began < 1.6
        assert 0 < len(outcome.published) < 4998
        assert outcome.published == batch[1 : len(outcome.published) + 1]
        assert (await handoff.publish(batch[-1:])).published


@BOTH
async def test_a_server_that_forgot_everything(server: OwnMoto, service: str, fresh_name: str) -> None:
    """The topic waits for the next try, which makes its queue again; nothing is parked."""
    async with owner(server.url(service)) as handoff:
        await handoff.publish([row(2, fresh_name)])
        server.kill()
        server.start()
        (failure,) = (await handoff.publish([row(3, fresh_name)])).failed
        assert failure.whole_topic
        assert (await handoff.publish([row(3, fresh_name)])).published


async def test_wrong_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWRONG")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    with OwnMoto(tmp_path, strict=True).running() as strict:
        for service in ("sqs", "sns"):
            broker = made(strict.url(service))
            with pytest.raises(AccessDenied, match="credentials") as caught:
                await broker.open()
            assert "hush" not in str(caught.value)
            await broker.close()


async def test_one_queue_takes_what_several_lanes_send(server: OwnMoto, fresh_name: str) -> None:
    """Clients that find a queue missing at the same moment make one."""
    brokers = [made(server.url("sqs")) for _ in range(3)]
    handoffs = [await broker.take_over(LANE, term(n)) for n, broker in enumerate(brokers)]
    await asyncio.gather(*[h.publish([row(n, fresh_name, key=f"k{n}")]) for n, h in enumerate(handoffs)])
    for broker in brokers:
        await broker.close()
    assert len(Queues(server.url("sqs")).messages(f"{fresh_name}.fifo")) == 3
