"""HTTP webhooks on a real server: what is taken, what fails alone, and what a target in trouble does to the others."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from fencepost import app, config
from fencepost.brokers.http import broker
from fencepost.brokers.http.signature import key_of, signed
from fencepost.envelope import STRUCTURED, Format
from fencepost.errors import (
    AccessDenied,
    ConnectionLost,
    DeadlineExceeded,
    FencepostError,
    FixError,
    ParkError,
    RetryError,
    Unavailable,
)
from fencepost.events import Event
from fencepost.outbox import Outbox
from fencepost.ports import BrokerOptions, Failure, Handoff, Lane, Outcome
from tests.brokers.http_kit import ENDLESS, GARBAGE, HANG, RESET, Answer, consumer, owner
from tests.brokers.rows import json_row, json_rows
from tests.services import free_port

Settings = dict[str, Any]
SECRETS = ["whsec_" + "bmV3" * 8, "whsec_" + "b2xk" * 8]


def at_once(failure: Failure) -> bool:
    """Whether the message is parked without another try. Fails where the message is not to blame."""
    assert isinstance(failure.error, ParkError)
    return failure.error.at_once


# -- what a message looks like -------------------------------------------------------------------------------------


async def test_a_message_is_one_post() -> None:
    async with consumer() as target, owner(f"{target.url}/hooks/{{topic}}?v=1") as handoff:
        one = json_row(1, "orders/placed", key='J\u00fcrgen "x" 100%', headers={"tenant": "caf\u00e9 a%20b"}, version=3)
        gone = json_row(2, payload=None)
        assert list((await handoff.publish([one, gone])).published) == [one, gone]
        first, second = sorted(target.taken, key=lambda r: r.target)
        assert (first.target, first.body) == ("/hooks/orders%2Fplaced?v=1", b'{"n":1}')
        assert first.headers["ce-subject"] == "J%C3%BCrgen%20%22x%22%20100%25"
        assert first.headers["tenant"] == "caf\u00e9 a%20b"
        assert first.headers["content-type"] == "application/json"
        assert (first.headers["ce-id"], first.id, first.headers["ce-entityversion"]) == (one.id, one.id, "3")
        assert first.headers["fencepost-topic"] == "orders/placed"
        assert (second.body, second.headers["fencepost-tombstone"]) == (b"", "true")
        assert not {"cookie", "authorization", "webhook-signature"} & first.headers.keys()


async def test_structured() -> None:
    async with consumer() as target, owner(target.url, Format.CLOUDEVENTS_STRUCTURED) as handoff:
        await handoff.publish([one := json_row(1)])
        (request,) = target.taken
        assert request.headers["content-type"] == STRUCTURED
        event = json.loads(request.body)
        assert (event["id"], event["subject"], event["data"]) == (one.id, "key-1", {"n": 1})


async def test_every_secret_signs_and_each_topic_has_its_own() -> None:
    secrets: Settings = {"signing_secrets": ",".join(SECRETS), "signing_secrets.private.*": SECRETS[1]}
    async with consumer() as target, owner(target.url, **secrets, bearer_token="t0ken") as handoff:
        await handoff.publish([json_row(1), json_row(2, "private.x")])
        common, private = sorted(target.taken, key=lambda r: r.headers["fencepost-topic"])
        for request, keys in ((common, SECRETS), (private, SECRETS[1:])):
            sent_s = int(request.headers["webhook-timestamp"])
            assert abs(sent_s - time.time()) < 10
            again = dict(signed(request.headers["webhook-id"], sent_s, request.body, [key_of(key) for key in keys]))
            assert request.headers["webhook-signature"] == again[b"webhook-signature"].decode()
            assert request.headers["webhook-id"] == request.id
            assert request.headers["authorization"] == "Bearer t0ken"
        assert common.headers["webhook-signature"].split(" ")[1].startswith("v1,")


async def test_the_password_of_the_url_is_sent_and_never_told() -> None:
    async with consumer(lambda _: 401) as target:
        url = target.url.replace("//", "//me:s%40cret@") + "/T0/path-secret"
        async with owner(url) as handoff:
            with pytest.raises(AccessDenied) as caught:
                await handoff.publish(json_rows(1))
        assert target.requests[0].headers["authorization"] == "Basic bWU6c0BjcmV0"
        assert target.requests[0].target == "/T0/path-secret"
        assert "secret" not in str(caught.value)
        assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("Content-Length", "0"), ("transfer-encoding", "chunked"), ("Host", "x"), ("webhook-id", "x"), ("a b", "x"),
     ("Tenant", "y"), ("line", "a\r\nb"), ("blank", " x")],
)  # fmt: skip
async def test_a_header_that_would_change_the_request_fails_alone(name: str, value: str) -> None:
    bad = json_row(1, headers={"tenant": "a", name: value})
    async with consumer() as target, owner(target.url) as handoff:
        outcome = await handoff.publish([bad, good := json_row(2)])
        assert [(f.message, at_once(f)) for f in outcome.failed] == [(bad, True)]
        assert list(outcome.published) == [good]
        assert target.ids() == [good.id]


# -- what an answer means ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 413, 415, 422, 431, 418])
async def test_a_message_that_is_refused_fails_alone_and_at_once(status: int) -> None:
    batch = json_rows(5)
    async with consumer(lambda r: status if r.id == batch[2].id else 200) as target, owner(target.url) as handoff:
        outcome = await handoff.publish(batch)
        assert list(outcome.published) == [*batch[:2], *batch[3:]]
        assert [(f.message, at_once(f)) for f in outcome.failed] == [(batch[2], True)]
        assert str(status) in str(outcome.failed[0].error)


@pytest.mark.parametrize(
    ("answer", "family"),
    [(500, Unavailable), (503, Unavailable), (429, Unavailable), (408, Unavailable), (404, FixError), (302, FixError),
     (403, AccessDenied), (RESET, ConnectionLost), (GARBAGE, ConnectionLost), (HANG, DeadlineExceeded)],
)  # fmt: skip
async def test_a_target_in_trouble_is_no_message_s_fault(answer: Answer, family: type[FencepostError]) -> None:
    """D6: no attempt of a message is used up."""
    async with consumer(lambda _: answer) as target, owner(target.url, publish_s=0.4) as handoff:
        with pytest.raises(family) as caught:
            await handoff.publish(json_rows(3))
        assert type(caught.value) is family
        assert target.url in str(caught.value)
        assert not target.taken


async def test_a_target_that_is_not_there() -> None:
    async with owner(f"http://127.0.0.1:{free_port()}/") as handoff:
        with pytest.raises(Unavailable, match="is the target running"):
            await handoff.publish(json_rows(1))


async def test_a_message_on_which_the_target_fails_every_time_does_not_hold_up_the_others() -> None:
    """D2: a target that takes other messages is in no trouble."""
    batch = json_rows(6)
    poison = batch[0]
    async with (
        consumer(lambda r: 500 if r.id == poison.id else 200) as target,
        owner(target.url, connections=1) as handoff,
    ):
        with pytest.raises(Unavailable):
            await handoff.publish(batch)
        await asyncio.sleep(0.05)
        outcome = await handoff.publish(batch)
        assert list(outcome.published) == batch[1:]
        assert [(f.message, at_once(f)) for f in outcome.failed] == [(poison, False)]
        assert target.ids() == [m.id for m in batch[1:]]


async def test_409_is_tried_again() -> None:
    async with consumer(lambda _: 409) as target, owner(target.url) as handoff:
        (failure,) = (await handoff.publish(json_rows(1))).failed
        assert isinstance(failure.error, ParkError)
        assert not failure.error.at_once


@pytest.mark.parametrize("as_date", [False, True])
async def test_retry_after_is_honoured(as_date: bool) -> None:
    asked = {"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=3), usegmt=True) if as_date else "1"}
    answers: list[Answer] = [(503, asked)]
    async with (
        consumer(lambda _: answers.pop() if answers else 204) as target,
        owner(target.url, connections=1) as handoff,
    ):
        batch = json_rows(3)
        for _ in range(3):
            with pytest.raises(Unavailable, match="503"):
                await handoff.publish(batch)
        assert len(target.requests) == 1
        began = target.requests[0].at_s
        while not target.taken:
            with suppress(Unavailable):
                assert list((await handoff.publish(batch)).published) == batch
            await asyncio.sleep(0.05)
        assert 0.95 <= target.requests[1].at_s - began < 3.5


async def test_redirections_are_not_followed() -> None:
    async with consumer() as other, consumer(lambda _: (307, {"location": other.url})) as target:
        async with owner(target.url) as handoff:
            with pytest.raises(FixError, match="redirections"):
                await handoff.publish(json_rows(1))
        assert not other.requests


async def test_cookies_are_not_kept() -> None:
    async with consumer(lambda _: (200, {"set-cookie": "a=b"})) as target, owner(target.url) as handoff:
        await handoff.publish(json_rows(1))
        await handoff.publish(json_rows(1, start=2))
        assert "cookie" not in target.requests[1].headers


async def test_an_answer_without_end_counts_and_is_left() -> None:
    async with consumer(lambda _: ENDLESS) as target, owner(target.url) as handoff:
        began = time.monotonic()
        outcome = await handoff.publish(batch := json_rows(3))
        assert list(outcome.published) == batch
        assert time.monotonic() - began < 1.5


# -- several targets -----------------------------------------------------------------------------------------------


def two(good: str, bad: str, **more: object) -> Settings:
    return {"url": good, "targets.bad.*": bad, **more}


@pytest.mark.parametrize("trouble", [HANG, 500, RESET, 404])
async def test_a_target_in_trouble_delays_nobody_else(trouble: Answer) -> None:
    async with consumer() as good, consumer(lambda _: trouble) as bad:
        async with owner(**two(good.url, bad.url, publish_s=0.4)) as handoff:
            slowest, failed = 0.0, 0
            for turn in range(6):
                ours, theirs = json_rows(4, start=turn * 10), json_rows(4, "bad.x", start=turn * 10 + 5)
                began = time.monotonic()
                outcome = await handoff.publish([*theirs, *ours])
                slowest = max(slowest, time.monotonic() - began) if turn else 0.0
                assert list(outcome.published) == ours
                failed += len(outcome.failed)
                assert all(f.whole_topic and isinstance(f.error, RetryError | FixError) for f in outcome.failed)
        assert failed == 24
        assert slowest < 0.3  # only the first one waited for what hangs
        assert len(bad.requests) <= 4


async def test_a_target_that_comes_back_is_tried_with_one_message_first() -> None:
    async with consumer() as good, consumer(lambda _: 500) as bad, owner(**two(good.url, bad.url)) as handoff:
        await handoff.publish(json_rows(8, "bad.x"))
        asked = len(bad.requests)
        bad.says, bad.delay_s = lambda _: 204, 0.15
        batch, give_up = json_rows(8, "bad.x", 20), time.monotonic() + 5
        while not (outcome := await handoff.publish(batch)).published:
            assert time.monotonic() < give_up
            await asyncio.sleep(0.05)
        assert list(outcome.published) == batch
        first, second, third = bad.requests[asked : asked + 3]
        assert second.at_s - first.at_s >= 0.14
        assert third.at_s - second.at_s < 0.14


async def test_no_more_connections_than_allowed() -> None:
    async with consumer() as target, owner(target.url, connections=3) as handoff:
        target.delay_s = 0.01
        await handoff.publish(batch := json_rows(20))
        assert (target.most_under_way, target.connections) == (3, 3)
        assert len(target.taken) == len(batch)


async def test_a_slow_target_is_left_in_time_and_goes_on_with_the_next_call() -> None:
    async with consumer() as target, owner(target.url, connections=2, publish_s=0.5) as handoff:
        target.delay_s = 0.1
        rest, calls = json_rows(20), 0
        while rest:
            began = time.monotonic()
            outcome = await handoff.publish(rest)
            assert time.monotonic() - began < 1.0
            assert outcome.published
            assert not outcome.failed
            rest = [m for m in rest if m not in outcome.published]
            calls += 1
        assert calls > 1
        assert len(target.taken) == 20


async def test_a_key_stays_in_order_behind_a_failure() -> None:
    batch = [json_row(n, key="k") for n in range(5)]
    async with consumer(lambda r: 422 if r.id == batch[2].id else 200) as target, owner(target.url) as handoff:
        outcome = await handoff.publish(batch)
        assert list(outcome.published) == batch[:2]
        assert [f.message for f in outcome.failed] == batch[2:3]
        assert target.ids() == [m.id for m in batch[:2]]


# -- the end -------------------------------------------------------------------------------------------------------


async def publishing(handoff: Handoff) -> asyncio.Task[Outcome]:
    task = asyncio.create_task(handoff.publish(json_rows(2)))
    await asyncio.sleep(0.15)
    assert not task.done()
    return task


async def test_close_ends_a_waiting_publish_and_its_connections() -> None:
    async with consumer(lambda _: HANG) as target:
        async with owner(target.url, publish_s=30.0) as handoff:
            task = await publishing(handoff)
            began = time.monotonic()
            await handoff.close()
            with pytest.raises(ConnectionLost):
                await task
            assert time.monotonic() - began < 0.5
        assert not [task for task in asyncio.all_tasks() if "brokers/http/" in str(task)]


async def test_cancelling_a_publish_leaves_nothing_behind() -> None:
    async with consumer(lambda _: HANG) as target, owner(target.url, publish_s=30.0) as handoff:
        task = await publishing(handoff)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        target.says = lambda _: 204
        await handoff.publish(batch := json_rows(2, start=9))
        assert target.ids() == [m.id for m in batch]


async def test_check_tries_every_known_target() -> None:
    async with consumer() as target:
        made = broker(
            BrokerOptions(url=target.url, source="/s", settings={"targets.a": f"http://127.0.0.1:{free_port()}"})
        )
        await made.open()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await made.rehearse(Lane("shop"))  # type: ignore[attr-defined]
        await made.close()
        well = broker(BrokerOptions(url=target.url, source="/s", settings={"targets.a.*": f"{target.url}/{{topic}}"}))
        await well.rehearse(Lane("shop"))  # type: ignore[attr-defined]
        await well.close()
        assert not target.requests


# -- in a relay ----------------------------------------------------------------------------------------------------


async def test_a_relay_keeps_back_what_a_dead_target_should_have_and_spends_no_attempt(tmp_path: Path) -> None:
    """D6, for one target of several: the others go on, and afterwards everything arrives in order, none parked."""
    async with consumer() as good, consumer(lambda _: 500) as bad:
        settings = config.made(
            {
                "relay": {"name": "shop", "max_attempts": 1, "retry_cap_s": 0.3},
                "database": {"url": f"sqlite:///{tmp_path}/shop.db"},
                "broker": {"url": good.url, "targets.bad": f"{bad.url}/hook"},
            },
            origin="the test",
        )
        await app.schema(settings).apply()
        seen: list[Event] = []
        async with app.relaying(settings, seen.append):
            await asyncio.to_thread(add, tmp_path, "bad", 40)
            await until(lambda: bool(bad.requests))
            for n in range(3):
                await asyncio.to_thread(add, tmp_path, "good", 10)
                began = time.monotonic()
                await until(lambda n=n: len(good.taken) >= 10 * (n + 1))  # type: ignore[misc]
                assert time.monotonic() - began < 1.5
            assert not bad.taken
            bad.says = lambda _: 204
            await until(lambda: len(bad.taken) >= 40)
        by_key: dict[str, list[int]] = {}
        for request in bad.taken:
            by_key.setdefault(request.headers["ce-subject"], []).append(int(request.headers["ce-entityversion"]))
        assert all(versions == sorted(set(versions)) for versions in by_key.values())
        assert [type(event).__name__ for event in seen].count("TopicHeld") >= 1
        assert not [e for e in seen if type(e).__name__ in {"MessageParked", "MessageFailed", "CircuitOpened"}]
        assert len(good.taken) == 30


def add(folder: Path, topic: str, count: int) -> None:
    """Commit messages as an application does."""
    connection = sqlite3.connect(folder / "shop.db")
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for n in range(count):
            Outbox().add(connection, topic, {"n": n}, key=f"k{n % 7}")
    connection.close()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not happened():
            await asyncio.sleep(0.02)
