"""Addresses at which nobody listens, or something else: each broker says so soon, and without its password."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from fencepost.errors import FencepostError, RetryError, Unavailable
from fencepost.ports import Broker, Lane
from servers.ports import HOST
from tests.brokers import aws_kit, mqtt_kit, nats_kit, rabbitmq_kit
from tests.brokers.rows import row, term
from tests.services import free_port

LANE = Lane("orders")
SMTP = b"220 mail.example ESMTP, and more that is no frame\r\n"
At = Callable[..., Broker]
"""The broker at a port."""


def aws(service: str) -> At:
    return lambda port, **options: aws_kit.made(f"{service}://eu-west-1/?endpoint=http://{HOST}:{port}", **options)


def nats(port: int, timeout_s: float = 20.0) -> Broker:
    return nats_kit.Place(f"nats://somebody:secret-word@{HOST}:{port}", "orders").broker(timeout_s=timeout_s)


def mqtt(port: int, timeout_s: float = 20.0) -> Broker:
    return mqtt_kit.Place(f"mqtt://somebody:secret-word@{HOST}:{port}", "orders").broker(timeout_s=timeout_s)


def rabbitmq(port: int, timeout_s: float = 20.0) -> Broker:
    return rabbitmq_kit.Place(f"amqp://somebody:secret-word@{HOST}:{port}", "orders").broker(timeout_s=timeout_s)


@pytest.mark.parametrize("at", [nats, mqtt, rabbitmq, aws("sqs"), aws("sns")])
async def test_a_server_that_is_not_there(at: At) -> None:
    port = free_port()
    broker = at(port)
    began = time.monotonic()
    with pytest.raises(Unavailable, match=f"{HOST}:{port}") as caught:
        await broker.open()
    assert time.monotonic() - began < 3
    assert "secret-word" not in str(caught.value)
    with pytest.raises(Unavailable):
        await (await broker.take_over(LANE, term())).publish([row(1)])
    assert time.monotonic() - began < 5
    await broker.close()


@pytest.mark.parametrize(
    ("at", "greeting", "error", "said"),
    [
        (mqtt, SMTP, RetryError, None),
        (mqtt, b"", RetryError, None),
        (mqtt, b"HTTP/1.1 400 Bad Request\r\n\r\n", RetryError, None),
        (rabbitmq, SMTP, RetryError, None),
        (aws("sqs"), SMTP, FencepostError, "is it an SQS"),
        (aws("sns"), SMTP, FencepostError, "is it an SNS"),
    ],
)
async def test_something_else_that_answers(at: At, greeting: bytes, error: type[Exception], said: str | None) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await reader.read(1_000)
        writer.close()

    async with await asyncio.start_server(greet, HOST, 0) as other:
        broker = at(other.sockets[0].getsockname()[1], timeout_s=2)
        with pytest.raises(error, match=said):
            await broker.open()
        await broker.close()
