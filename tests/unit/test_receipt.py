"""Receipts: what is written is what is read, and names exactly what it should."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.message import Position, Stored
from fencepost.receipt import RECEIPTS_KEPT, Receipt, Receipts, digest, merged


def stored(position: Position, id_: str) -> Stored:
    return Stored(position, id_, "t", None, None, "t", b"", "text/plain", None, 0)


def receipt(positions: list[Position], counter: int = 1) -> Receipt:
    batch = [stored(p, f"id-{p}") for p in positions]
    return Receipt.of(batch, fence=7, counter=counter, token=3, owner="host:1")


@given(st.lists(st.integers(0, 2**62), unique=True).map(sorted))
def test_numbers_come_back_as_they_were(positions: list[int]) -> None:
    written = receipt(list(positions))
    assert Receipt.decode(written.encode()) == written


@given(st.lists(st.text(max_size=20), unique=True).map(sorted))
def test_texts_come_back_as_they_were(positions: list[str]) -> None:
    written = receipt(list(positions))
    assert Receipt.decode(written.encode()) == written


@given(st.sets(st.integers(0, 300)))
def test_ranges_cover_the_positions_and_nothing_else(positions: set[int]) -> None:
    ranges = receipt(sorted(positions)).ranges()
    covered = [p for first, last in ranges for p in range(int(first), int(last) + 1)]
    assert covered == sorted(positions)
    assert all(int(b[0]) - int(a[1]) > 1 for a, b in pairwise(ranges))


def test_another_message_at_the_same_position_is_not_named() -> None:
    receipts = Receipts([receipt([5])])
    assert (5, digest("id-5")) in receipts.named()
    assert (5, digest("id-5-of-another-history")) not in receipts.named()


def test_what_is_named_at_some_positions() -> None:
    receipts = Receipts([receipt([1, 2, 3]), receipt([4, 7])])
    assert receipts.named({2, 4, 5}) == {(2, digest("id-2")), (4, digest("id-4"))}
    assert receipts.named(set()) == set()


def test_only_the_newest_are_kept() -> None:
    receipts = Receipts(receipt([n], counter=n) for n in range(1, 101))
    assert len(receipts) == RECEIPTS_KEPT
    assert receipts.highest() == 100
    assert receipts.ranges() == [(100 - RECEIPTS_KEPT + 1, 100)]
    assert receipts.last == receipt([100], counter=100)


def test_ranges_that_overlap_or_touch_are_one() -> None:
    assert merged([(7, 9), (1, 3), (4, 4), (2, 3), (9, 12), (14, 14)]) == [(1, 4), (7, 12), (14, 14)]
    assert merged([("b", "b"), ("a", "a"), ("b", "b")]) == [("a", "a"), ("b", "b")]
    assert merged([]) == []


def test_none_at_all() -> None:
    receipts = Receipts()
    assert (receipts.highest(), receipts.ranges(), receipts.named(), receipts.last) == (None, [], set(), None)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"fence":1,"counter":1,"token":1,"owner":"x","positions":[1,2],"digests":"AAAAAA=="}']
)
def test_what_is_no_receipt_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="receipt"):
        Receipt.decode(data)
