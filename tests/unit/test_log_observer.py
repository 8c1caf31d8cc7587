"""The log observer: what is told, what is added up, what is not repeated."""

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from fencepost import events
from fencepost.observers.log import LOGGER_NAME, LogObserver, configure


class ManualClock:
    """Time goes by when the test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def random(self) -> float:
        return 0.5

    def new_id(self) -> str:
        return "0" * 36


@pytest.fixture(autouse=True)
def logger_left_alone() -> Iterator[None]:
    logger = logging.getLogger(LOGGER_NAME)
    before = (logger.level, logger.propagate, list(logger.handlers))
    yield
    logger.level, logger.propagate = before[0], before[1]
    logger.handlers[:] = before[2]


def published(messages: int) -> events.Published:
    return events.Published(lane="orders.0", messages=messages, payload_bytes=300, duration_s=0.01, oldest_age_s=0.2)


def told(*, level: str = "info") -> tuple[io.StringIO, LogObserver, ManualClock]:
    stream, clock = io.StringIO(), ManualClock()
    configure(as_json=True, level=level, stream=stream)
    return stream, LogObserver(clock=clock, scrub=lambda text: text.replace("hunter22", "***")), clock


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object() -> None:
    stream, observer, _ = told()
    observer(events.LeaseAcquired(lane="orders.0", owner="host:1:abcd", token=7, early=True))
    (line,) = lines(stream)
    assert line["event"] == "lease_acquired"
    assert line["level"] == "info"
    assert line["lane"] == "orders.0"
    assert (line["owner"], line["token"], line["early"]) == ("host:1:abcd", 7, True)
    assert line["text"] == "orders.0: leading, term 7"
    assert datetime.fromisoformat(str(line["ts"])).utcoffset() is not None


def test_every_event_has_a_line_of_its_own() -> None:
    from fencepost.observers.log import _LINES

    kinds = {k for k in vars(events).values() if isinstance(k, type) and issubclass(k, events.Event)} - {events.Event}
    assert len(kinds) >= 14
    assert kinds == set(_LINES)


def test_batches_are_added_up() -> None:
    stream, observer, clock = told()
    observer(published(5))  # the first after a pause is told at once
    for _ in range(99):
        clock.seconds += 0.1
        observer(published(10))
        observer(events.Settled(lane="orders.0", rows=10, expected=10))
    assert [line["messages"] for line in lines(stream)] == [5]
    clock.seconds += 0.2
    observer(published(10))
    assert [line["messages"] for line in lines(stream)] == [5, 1000]
    observer(published(3))
    observer(events.LeaseEnded(lane="orders.0", owner="me", token=1, reason="released"))
    assert [line["event"] for line in lines(stream)][-2:] == ["published_total", "lease_ended"]
    observer(published(4))
    observer.close()
    assert lines(stream)[-1]["messages"] == 4


def test_each_batch_is_there_for_debugging() -> None:
    stream, observer, _ = told(level="debug")
    observer(published(5))
    observer(published(6))
    observer(events.Settled(lane="orders.0", rows=5, expected=5))
    assert [line["event"] for line in lines(stream)] == ["published", "published_total", "published", "settled"]


def test_an_open_circuit_is_told_once_a_minute() -> None:
    stream, observer, clock = told()
    for failures in range(1, 200):
        cause = "the server is away"
        observer(events.CircuitOpened(lane="orders.0", cause=cause, failures=failures, delay_s=1.0))
        clock.seconds += 1.0
    assert [line["failures"] for line in lines(stream)] == [1, 61, 121, 181]
    observer(events.CircuitOpened(lane="orders.0", cause="another cause", failures=200, delay_s=1.0))
    observer(events.CircuitClosed(lane="orders.0", open_s=200.0))
    observer(events.CircuitOpened(lane="orders.0", cause="another cause", failures=1, delay_s=0.1))
    assert [line["event"] for line in lines(stream)][-3:] == ["circuit_opened", "circuit_closed", "circuit_opened"]


def test_a_circuit_is_told_again_although_its_closing_was_too_quiet_to_log() -> None:
    stream, observer, _ = told(level="warning")
    opened = events.CircuitOpened(lane="orders.0", cause="away", failures=1, delay_s=0.1)
    for event in (opened, events.CircuitClosed(lane="orders.0", open_s=1.0), opened):
        observer(event)
    assert [line["event"] for line in lines(stream)] == ["circuit_opened", "circuit_opened"]


def test_standing_by_is_told_when_the_leader_changes() -> None:
    stream, observer, _ = told()
    for owner in ("a", "a", None, None, "a"):
        observer(events.StandingBy(lane="orders.0", owner=owner))
    assert [line["owner"] for line in lines(stream)] == ["a", None, "a"]
    assert lines(stream)[1]["text"] == "orders.0: standing by, the leader is nobody yet"


def test_levels_and_secrets() -> None:
    stream, observer, _ = told()
    observer(events.ReceiptsSettled(lane="orders.0", rows=0))
    observer(events.ReceiptsSettled(lane="orders.0", rows=3))
    observer(events.Settled(lane="orders.0", rows=3, expected=5))
    observer(events.LeaseEnded(lane="orders.0", owner="me", token=1, reason="lost"))
    observer(events.CircuitOpened(lane="orders.0", cause="login hunter22 refused", failures=1, delay_s=1.0))
    try:
        raise ValueError("a defect")
    except ValueError as error:
        observer(events.RelayFailed(lane="orders.0", cause="ValueError: a defect", error=error))
    found = lines(stream)
    assert [line["level"] for line in found] == ["info", "warning", "warning", "warning", "error"]
    assert "hunter22" not in stream.getvalue()
    assert "Traceback" in str(found[-1]["traceback"])
    assert "error" not in found[-1]


def test_lanes_do_not_share_what_is_remembered() -> None:
    stream, observer, _ = told()
    for lane in ("a.0", "b.0"):
        observer(events.CircuitOpened(lane=lane, cause="away", failures=1, delay_s=1.0))
    assert [line["lane"] for line in lines(stream)] == ["a.0", "b.0"]


def test_text_for_people() -> None:
    stream = io.StringIO()
    configure(as_json=False, level="info", stream=stream)
    LogObserver(clock=ManualClock())(events.TakenOver(lane="orders.0", token=1, receipts=2, duration_s=0.1234))
    assert stream.getvalue().endswith("INFO    orders.0: taken over at the broker in 0.123 s, 2 receipts read\n")
