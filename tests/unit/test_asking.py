"""The question whether the broker answers: how often, how long, and what is told."""

import asyncio
import socket

from fencepost import app
from fencepost.app.asking import EVERY_S, TIMEOUT_S, BrokerQuestion
from fencepost.clock import SYSTEM_CLOCK, SystemClock
from fencepost.config import Config, load
from tests.cli.process import CLOSED


class ByHand(SystemClock):
    """A clock whose monotonic time is set."""

    at_s = 100.0

    def monotonic(self) -> float:
        return self.at_s


def config(broker: str) -> Config:
    values = {"RELAY__NAME": "asked", "DATABASE__URL": "sqlite:///orders.db", "BROKER__URL": broker}
    return load(None, {f"FENCEPOST_{name}": value for name, value in values.items()})


async def test_an_answer_counts_for_a_while() -> None:
    clock = ByHand()
    asked = 0

    class Counted(BrokerQuestion):
        async def _ask(self) -> str:
            nonlocal asked
            asked += 1
            return f"trouble {asked}"

    question = Counted(config(f"nats://{CLOSED}"), clock)
    assert set(await asyncio.gather(*(question.trouble() for _ in range(5)))) == {"trouble 1"}
    clock.at_s += EVERY_S - 0.1
    assert await question.trouble() == "trouble 1"
    clock.at_s += 0.1
    assert await question.trouble() == "trouble 2"


async def test_a_broker_that_is_not_there_and_no_secret() -> None:
    said = await BrokerQuestion(config(f"nats://app:hunter22@{CLOSED}"), SYSTEM_CLOCK).trouble()
    assert CLOSED in said
    assert "hunter22" not in said


async def test_a_silent_broker_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"nats://127.0.0.1:{server.getsockname()[1]}"
        async with asyncio.timeout(3 * TIMEOUT_S):
            said = await BrokerQuestion(config(url), SYSTEM_CLOCK).trouble()
    assert f"no answer from the NATS server within {TIMEOUT_S:g} s" in said


async def test_nats_answers(nats_url: str) -> None:
    assert await BrokerQuestion(config(nats_url), SYSTEM_CLOCK).trouble() == ""


async def test_kafka_answers(kafka_url: str) -> None:
    assert await BrokerQuestion(config(kafka_url), SYSTEM_CLOCK).trouble() == ""


async def test_a_relay_that_has_ended_says_so() -> None:
    values = {"RELAY__NAME": "asked", "DATABASE__URL": "memory://asked", "BROKER__URL": "memory://asked"}
    settings = load(None, {f"FENCEPOST_{name}": value for name, value in values.items()})
    async with app.relaying(settings) as relay:
        assert await relay.trouble() == ""
    assert await relay.trouble() == "the relay has ended: it was stopped"
