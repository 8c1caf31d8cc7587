"""What may be sent now, and what must wait."""

from fencepost.clock import SYSTEM_CLOCK, SystemClock
from fencepost.errors import ParkError
from fencepost.message import Stored
from fencepost.ports import Failure, Outcome
from fencepost.relay.order import Order, waves


class StandingClock(SystemClock):
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def monotonic(self) -> float:
        return self.at_s


def row(position: int, key: str | None = None, topic: str = "orders") -> Stored:
    return Stored(position, f"id-{position}", topic, key, None, "t", b"", "text/plain", None, 0)


def positions(rows: list[Stored]) -> list[object]:
    return [m.position for m in rows]


def test_a_row_is_chosen_once_while_it_is_in_hand() -> None:
    order = Order(SYSTEM_CLOCK)
    rows = [row(1), row(2)]
    order.begin_read(bottom=True)
    assert positions(order.choose(rows)) == [1, 2]
    order.begin_read(bottom=True)
    assert order.choose([*rows, row(3)]) == [row(3)]


def test_a_row_settled_while_the_read_ran_is_not_chosen_from_it() -> None:
    """The read saw the row before the settle took it away: chosen again, it would be published twice."""
    order = Order(SYSTEM_CLOCK)
    order.begin_read(bottom=True)
    chosen = order.choose([row(1), row(2)])
    order.begin_read(bottom=True)  # this read sees rows 1 and 2 ...
    order.let_go(chosen)  # ... and before it has answered, they are settled
    assert positions(order.choose([row(1), row(2), row(3)])) == [3]
    order.begin_read(bottom=True)  # a read that begins afterwards and still sees row 1 tells the truth
    assert positions(order.choose([row(1)])) == [1]


def test_one_of_a_key_at_a_time_where_a_message_may_fail_alone() -> None:
    rows = [row(1, "a"), row(2, "a"), row(3, "b"), row(4), row(5), row(6, "a", topic="other"), row(7, "a"), row(8, "b")]
    assert [positions(wave) for wave in waves(rows)] == [[1, 3, 4, 5, 6], [2, 8], [7]]
    assert waves([]) == []


def test_what_comes_later_in_a_batch_goes_without_the_keys_and_topics_that_failed() -> None:
    """Also where a read has begun in between; until the next batch begins."""
    order = Order(StandingClock())
    order.begin_read(bottom=True)
    batch = order.choose([row(1, "a"), row(2, "b"), row(3, "c", "held"), row(4, "a"), row(5, "b"), row(6, "c", "held")])
    assert list(order.confirm(batch)) == batch
    order.wait(batch[0], delay_s=1.0)
    order.hold("held", delay_s=1.0)
    order.begin_read(bottom=False)
    assert [m.position for m in order.still(batch[3:])] == [5]
    order.confirm([])
    assert len(order.still(batch[3:])) == 3


def test_b7_a_failed_message_holds_its_key_back_and_no_other() -> None:
    clock = StandingClock()
    order = Order(clock)
    rows = [row(1, "a"), row(2, "a"), row(3, "b")]
    order.begin_read(bottom=True)
    batch = order.choose(rows)
    order.wait(rows[0], delay_s=2.0)
    outcome = Outcome([], [Failure(rows[0], ParkError("no"))])
    assert positions(order.rest(batch, outcome)) == [3]
    order.let_go(batch)
    order.begin_read(bottom=True)
    assert positions(order.choose(rows)) == [3]
    assert order.next_try_s() == 2.0
    clock.at_s = 2.0
    order.begin_read(bottom=True)
    assert positions(order.choose(rows[:2])) == [1, 2]
    assert order.next_try_s() is None


def test_a_message_without_a_key_waits_alone() -> None:
    order = Order(StandingClock())
    order.wait(row(1), delay_s=1.0)
    order.begin_read(bottom=True)
    assert positions(order.choose([row(1), row(2)])) == [2]


def test_what_is_put_off_is_not_overtaken_by_later_rows_of_its_key() -> None:
    """Neither by those of a read-ahead nor by those further up in the same round."""
    order = Order(SYSTEM_CLOCK)
    rows = [row(n, "a") for n in range(1, 6)] + [row(6, "b"), row(7, "a"), row(8, "c")]
    order.begin_read(bottom=True)
    first = order.choose(rows[:3])
    order.begin_read(bottom=False)
    ahead = order.choose(rows[3:6])
    order.put_off(first[1:])
    order.let_go(first[:1])
    assert [m.position for m in order.confirm(ahead)] == [6]
    order.begin_read(bottom=False)
    assert positions(order.choose(rows[6:])) == [8]
    order.begin_read(bottom=True)
    assert positions(order.choose(rows[1:])) == [2, 3, 4, 5, 7]


def test_a_read_ahead_is_confirmed_without_the_keys_that_failed_meanwhile() -> None:
    order = Order(StandingClock())
    order.begin_read(bottom=True)
    order.choose([row(1, "a")])
    order.begin_read(bottom=False)
    ahead = order.choose([row(2, "a"), row(3, "b")])
    order.wait(row(1, "a"), delay_s=0.0)
    assert [m.position for m in order.confirm(ahead)] == [3]
    order.begin_read(bottom=False)
    assert positions(order.choose([row(4, "a"), row(5, "c")])) == [5], "not before the round begins again"
    order.begin_read(bottom=True)
    assert positions(order.choose([row(1, "a"), row(2, "a")])) == [2], "row 1 is still in hand here"


def test_b7_a_row_that_is_tried_again_is_not_taken_for_a_read_ahead_of_its_failure() -> None:
    """Taken out, it would let a later row of its key overtake it in the same round."""
    clock = StandingClock()
    order = Order(clock)
    order.begin_read(bottom=True)
    failed = order.choose([row(1, "a")])
    order.wait(row(1, "a"), delay_s=1.0)
    order.let_go(failed)
    clock.at_s = 1.0
    order.begin_read(bottom=True)
    again = order.choose([row(1, "a")])
    assert [m.position for m in order.confirm(again)] == [1]
