"""The log observer: what is told, what is added up, what is not repeated."""

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from fencepost import events
from fencepost.observers.log import LOGGER_NAME, STRANGER_KNOWN_S, LogObserver, configure


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


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (events.TakenOver(lane="o.0", token=1, receipts=1, duration_s=0.1), "0.100 s, 1 receipt read"),
        (events.ReceiptsSettled(lane="o.0", rows=1), "settled 1 message, already published"),
        (events.Settled(lane="o.0", rows=1, expected=1), "settled 1 message"),
        (events.Settled(lane="o.0", rows=1, expected=2), "settled 1 message of 2: others had settled or"),
        (
            events.RowsVanished(lane="o.0", rows=2, first=7, last=9, message_ids=("a", "b")),
            "lost: 2 messages at positions 7 to 9, deleted by somebody else before they were published "
            "(a truncated table?): a, b",
        ),
        (events.MessageParked(lane="o.0", message_id="m", topic="t", attempts=1, cause="c"), "after 1 attempt: c"),
        (events.CircuitOpened(lane="o.0", cause="c", failures=1, delay_s=1.0), "in 1.0 s (1 failure): c"),
        (events.CircuitOpened(lane="o.0", cause="c", failures=2, delay_s=1.0), "in 1.0 s (2 failures): c"),
        (events.Published(lane="o.0", messages=1, payload_bytes=1, duration_s=0.1, oldest_age_s=0), "1 message in 0.1"),
    ],
)
def test_one_is_not_many(event: events.Event, said: str) -> None:
    stream, observer, _ = told(level="debug")
    observer(event)
    assert said in str(lines(stream)[0]["text"])


def test_the_summary_of_one_message() -> None:
    stream, observer, _ = told()
    observer(published(1))
    assert lines(stream)[0]["text"] == "orders.0: published 1 message in 1 batch"


def test_a_fence_is_told_with_its_cause() -> None:
    """Not as another relay that has taken over: what a broker kept may just be gone."""
    stream, observer, _ = told()
    observer(events.OwnerFenced(lane="orders.0", token=7, cause="the keys of lane orders.0 are gone"))
    (line,) = lines(stream)
    assert line["text"] == "orders.0: fenced, term 7 stops at once: the keys of lane orders.0 are gone"


def fenced(observer: LogObserver, token: int, then: int) -> None:
    observer(events.OwnerFenced(lane="orders.0", token=token, cause="another owner"))
    observer(events.LeaseEnded(lane="orders.0", owner="me", token=token, reason="released"))
    observer(events.LeaseAcquired(lane="orders.0", owner="me", token=then, early=False))


def strangers(stream: io.StringIO) -> list[dict[str, object]]:
    return [line for line in lines(stream) if line["event"] == "same_name_elsewhere"]


def test_two_databases_with_one_name_are_named_as_the_cause() -> None:
    """Who fences us has a later term of the same lease, or leases of its own."""
    stream, observer, clock = told()
    for token in range(1, 1000):
        fenced(observer, token, token + 1)
        clock.seconds += 1
        if token in {10, 11, 610, 611, 999}:
            assert len(strangers(stream)) == (0 if token < 11 else 1 if token < 611 else 2)
    line = strangers(stream)[0]
    assert (line["level"], line["times"]) == ("error", 11)
    assert "[relay] name of its own" in str(line["text"])


def test_a_relay_that_was_paused_and_fences_once_more_is_no_stranger() -> None:
    stream, observer, clock = told()
    for token in range(1, 5):
        fenced(observer, token, token + 1)
        clock.seconds += 0.5
    assert strangers(stream) == []


def test_who_was_fenced_by_the_next_owner_suspects_nobody() -> None:
    stream, observer, _ = told()
    for token in range(1, 20, 2):
        fenced(observer, token, token + 2)
    assert strangers(stream) == []


def test_fences_that_are_far_apart_have_other_causes() -> None:
    stream, observer, clock = told()
    for token in range(1, 5):
        fenced(observer, token, token + 1)
        clock.seconds += STRANGER_KNOWN_S + 1
    assert strangers(stream) == []


class FullDisk(io.StringIO):
    """A stream as standard output is when its disk is full."""

    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_log_that_cannot_be_written_is_told_once_and_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    configure(as_json=True, level="info", stream=FullDisk())
    observer = LogObserver(clock=ManualClock())
    for token in (1, 2):
        observer(events.LeaseAcquired(lane="orders.0", owner="me", token=token, early=False))
    said = "the log cannot be written: No space left on device; the relay goes on without it\n"
    assert capsys.readouterr().err == said
