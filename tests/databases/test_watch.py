"""How long a reader waits, and when the writers are asked to wake it."""

from __future__ import annotations

from fencepost.clock import SystemClock
from fencepost.message import Stored
from fencepost.sql.watch import BUSY_ROWS, BUSY_WINDOW_S, LOOKS_AWAKE, Watch


class StillClock(SystemClock):
    """Monotonic time moves only when told to."""

    def __init__(self) -> None:
        self.at_s = 1000.0

    def monotonic(self) -> float:
        return self.at_s


def stored(*positions: int) -> list[Stored]:
    return [Stored(p, f"id-{p}", "t", "k", 1, "x", b"", "text/plain", None, 0) for p in positions]


def waits(watch: Watch, count: int, timeout_s: float = 1.0) -> list[float]:
    return [watch.next_wait_s(timeout_s) for _ in range(count)]


def sleepy(watch: Watch) -> bool:
    return watch.should_sleep


def busy(watch: Watch) -> bool:
    return watch.should_wake


def test_the_waits_double_until_it_is_time_to_sleep() -> None:
    watch = Watch(StillClock())
    assert not sleepy(watch)
    assert waits(watch, LOOKS_AWAKE) == [0.002, 0.004, 0.008, 0.016, 0.032]
    assert sleepy(watch)
    watch.told(asleep=True)
    assert not sleepy(watch)
    assert waits(watch, 6) == [0.064, 0.128, 0.256, 0.512, 1.0, 1.0]


def test_no_wait_is_longer_than_allowed_and_none_overflows() -> None:
    watch = Watch(StillClock())
    assert waits(watch, 3, 0.003) == [0.002, 0.003, 0.003]
    assert set(waits(watch, 2000, 5.0)[50:]) == {5.0}


def test_new_rows_make_the_waits_short_again() -> None:
    watch = Watch(StillClock())
    waits(watch, 4)
    watch.found(stored(1, 2), None)
    assert waits(watch, 2) == [0.002, 0.004]


def test_rows_that_only_stand_there_are_not_new() -> None:
    watch = Watch(StillClock())
    watch.found(stored(1, 2), None)
    waits(watch, 3)
    for _ in range(1000):
        watch.found(stored(1, 2), None)
    assert waits(watch, 1) == [0.016]
    assert not busy(watch)


def test_a_late_row_below_the_others_is_new() -> None:
    watch = Watch(StillClock())
    watch.found(stored(1, 3), None)
    waits(watch, 3)
    watch.found(stored(1, 2, 3), None)
    assert waits(watch, 1) == [0.002]


def test_a_page_further_up_is_new_only_once() -> None:
    watch = Watch(StillClock())
    watch.found(stored(1, 2), None)
    watch.found(stored(3, 4), 2)
    waits(watch, 2)
    watch.found(stored(1, 2), None)
    watch.found(stored(3, 4), 2)
    assert waits(watch, 1) == [0.008]
    watch.found(stored(5), 4)
    assert waits(watch, 1) == [0.002]


def test_rare_rows_do_not_end_the_sleep() -> None:
    """Each is announced, which costs the writers little; to look often again would cost everybody more."""
    clock = StillClock()
    watch = Watch(clock)
    watch.told(asleep=True)
    for position in range(1, 500):
        clock.at_s += BUSY_WINDOW_S / BUSY_ROWS * 2
        watch.found(stored(position), None)
        assert not busy(watch)


def test_many_rows_end_the_sleep() -> None:
    clock = StillClock()
    watch = Watch(clock)
    watch.told(asleep=True)
    for position in range(1, BUSY_ROWS):
        clock.at_s += BUSY_WINDOW_S / BUSY_ROWS / 2
        watch.found(stored(position), None)
        assert not busy(watch)
    watch.found(stored(BUSY_ROWS), None)
    assert busy(watch)
    watch.told(asleep=False)
    assert not busy(watch)
    assert waits(watch, 2) == [0.002, 0.004]


def test_what_an_earlier_reader_said_is_taken_back_when_rows_come() -> None:
    """It may have died asleep: until somebody says otherwise the writers go on notifying."""
    watch = Watch(StillClock())
    assert watch.asleep is None
    watch.found(stored(*range(BUSY_ROWS)), None)
    assert busy(watch)
