"""The judge of histories finds exactly what is wrong."""

import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost import history, testing
from fencepost.history import EXAMPLES, Entry, Report, compare


def entries(*ids: str, key: str | None = "k") -> list[Entry]:
    """Entries of one key, versions in the order given: "a1" has version 1."""
    return [Entry(i, key, int(i[1:])) for i in ids]


def judge(committed: Iterable[Entry], *streams: Iterable[Entry]) -> tuple[int, int, int, int]:
    report = compare(committed, streams)
    return (report.lost, report.repeated, report.out_of_order, report.unknown)


def test_a_complete_history_is_clean() -> None:
    committed = entries("a1", "a2", "a3")
    report = compare(committed, [committed])
    assert report.clean
    assert report == Report(committed=3, published=3, lost=0, repeated=0, out_of_order=0, unknown=0)
    assert str(report) == "committed 3, published 3, lost 0, repeated 0, out of order 0, unknown 0"


def test_nothing_is_clean() -> None:
    assert compare([], []).clean


def test_what_is_missing_is_lost_and_named() -> None:
    report = compare(entries("a1", "a2", "a3"), [entries("a1", "a3")])
    assert (report.lost, report.clean) == (1, False)
    assert report.examples == ("lost: a2",)


def test_a_repeat_is_counted_once_for_each_time_too_many() -> None:
    committed = entries("a1", "a2")
    assert judge(committed, [*committed, *committed, committed[0]]) == (0, 3, 0, 0)


def test_a_repeat_in_another_stream_is_a_repeat() -> None:
    committed = entries("a1", "a2")
    assert judge(committed, committed, committed[:1]) == (0, 1, 0, 0)


def test_a_repeat_does_not_count_as_out_of_order_nor_move_the_order_back() -> None:
    committed = entries("a1", "a2", "a3")
    assert judge(committed, [committed[0], committed[1], committed[0], committed[2]]) == (0, 1, 0, 0)


def test_a_version_that_is_not_above_an_earlier_one_is_out_of_order() -> None:
    report = compare(entries("a1", "a2", "a3"), [entries("a3", "a1", "a2")])
    assert report.out_of_order == 2
    assert report.examples == (
        "out of order: a1 key 'k' version 1 after version 3",
        "out of order: a2 key 'k' version 2 after version 3",
    )


def test_an_equal_version_of_another_message_is_out_of_order() -> None:
    committed = [Entry("a", "k", 1), Entry("b", "k", 1)]
    assert judge(committed, committed) == (0, 0, 1, 0)


def test_keys_have_orders_of_their_own_and_no_key_has_none() -> None:
    mixed = [
        Entry("a", "one", 2),
        Entry("b", "two", 1),
        Entry("c", None, 1),
        Entry("d", "three", None),
        Entry("e", "one", 3),
    ]
    assert judge(mixed, mixed) == (0, 0, 0, 0)


def test_a_key_may_be_topic_and_key() -> None:
    committed = [Entry("a", ("orders", "1"), 2), Entry("b", ("payments", "1"), 1)]
    assert judge(committed, committed) == (0, 0, 0, 0)


def test_the_order_is_judged_within_a_stream() -> None:
    assert judge(entries("a1", "a2"), entries("a2"), entries("a1")) == (0, 0, 0, 0)


def test_what_was_never_committed_is_unknown_each_time() -> None:
    report = compare([], [[Entry("x"), Entry("x")]])
    assert (report.unknown, report.published) == (2, 2)
    assert report.examples == ("unknown: x", "unknown: x")


def test_the_first_examples_of_each_kind_are_shown() -> None:
    report = compare([Entry(f"lost-{i}") for i in range(20)], [[Entry(f"unknown-{i}") for i in range(20)]])
    assert report.examples == tuple(f"{kind}: {kind}-{i}" for kind in ("lost", "unknown") for i in range(EXAMPLES))
    assert str(report).count("\n") == 2 * EXAMPLES


def test_a_report_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        compare([], []).lost = 1  # type: ignore[misc]


def test_everything_is_read_once_from_iterators_in_bounded_memory() -> None:
    count = 100_000

    def stream(first: int) -> Iterator[Entry]:
        return (Entry(f"{i:036d}", i % 1_000, i) for i in range(first, count, 2))

    tracemalloc.start()
    report = compare((Entry(f"{i:036d}", i % 1_000, i) for i in range(count)), (stream(first) for first in (0, 1)))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.clean
    assert report.published == count
    assert peak_bytes < 250 * count


@given(
    st.lists(st.sampled_from("abcdef"), max_size=12),
    st.lists(st.lists(st.sampled_from("abcdefxy"), max_size=8), max_size=3),
)
def test_the_counts_agree_with_their_definitions(committed: list[str], streams: list[list[str]]) -> None:
    versions = {name: version for version, name in enumerate("abcdef")}
    report = compare(
        [Entry(name, "k", versions[name]) for name in committed],
        [[Entry(name, "k", versions.get(name)) for name in stream] for stream in streams],
    )
    read = [name for stream in streams for name in stream]
    assert report.published == len(read)
    assert report.lost == len(set(committed) - set(read))
    assert report.unknown == sum(1 for name in read if name not in committed)
    assert report.repeated == sum(read.count(name) - 1 for name in set(read) & set(committed))


def test_the_kit_has_the_same_judge() -> None:
    assert testing.history.compare is compare
    assert set(testing.history.__all__) <= set(dir(history))


def test_repeats_that_say_so_are_counted_apart() -> None:
    committed = [Entry("a"), Entry("b")]
    report = compare(committed, [[Entry("a"), Entry("b"), Entry("a", marked=True), Entry("b")]])
    assert (report.repeated, report.unmarked) == (2, 1)
    assert "repeated 2 (1 said so)" in str(report)
    assert not report.clean


def test_the_first_copy_that_was_sent_may_be_the_last_that_arrives() -> None:
    late = compare([Entry("a")], [[Entry("a", marked=True), Entry("a"), Entry("a", marked=True)]])
    assert (late.repeated, late.unmarked) == (2, 0)
    twice = compare([Entry("a")], [[Entry("a", marked=True), Entry("a"), Entry("a")]])
    assert (twice.repeated, twice.unmarked) == (2, 1)
