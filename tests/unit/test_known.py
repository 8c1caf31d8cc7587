"""What an owner has read and not finished must be there at the next look; what is not, it says (C6)."""

from __future__ import annotations

from fencepost.events import Event, RowsVanished
from fencepost.message import Stored
from fencepost.receipt import Receipt, Receipts
from fencepost.relay.known import IDS_TOLD, ROWS_MAX, Known


def row(position: int, message_id: str | None = None) -> Stored:
    return Stored(position, message_id or f"id-{position}", "orders", None, None, "t", b"", "text/plain", None, 0)


class Told:
    """What is known, who is told, and an end of trust that is moved by hand."""

    def __init__(self, *, fenced: bool = True) -> None:
        self.events: list[Event] = []
        self.until_s = 10.0
        self.known = Known("orders.0", self.events.append, lambda: self.until_s, fenced=fenced)

    def look(self, *rows: Stored, everything: bool = True) -> None:
        self.known.look(rows, everything=everything)

    def renew(self, times: int = 2) -> list[Event]:
        """Renewals, and a look after each; what was told until then."""
        for _ in range(times):
            self.until_s += 1.0
            self.look(row(0), everything=False)
        return self.events


def vanished(*positions: int) -> RowsVanished:
    ids = tuple(f"id-{position}" for position in positions)
    return RowsVanished(
        lane="orders.0", rows=len(positions), first=positions[0], last=positions[-1], message_ids=ids[:IDS_TOLD]
    )


def test_what_is_gone_is_told_once_and_after_two_renewals() -> None:
    told = Told()
    told.known.note([row(3), row(1), row(2)])
    told.look(row(2))
    assert told.events == []
    assert told.renew(1) == []
    assert told.renew(1) == [vanished(1, 3)]
    assert told.renew(3) == [vanished(1, 3)]


def test_nothing_is_told_while_trust_is_not_renewed() -> None:
    """Somebody else may own the lane by now, and have published them."""
    told = Told()
    told.known.note([row(1)])
    for _ in range(20):
        told.look()
    assert told.events == []


def test_without_a_fence_what_was_there_before_may_be_gone() -> None:
    """An earlier owner, paused after a publish, settles it when it wakes."""
    told = Told(fenced=False)
    told.look(row(1), row(2), everything=False)
    told.known.note([row(1), row(2)])
    told.look(row(1), row(2), row(3))
    told.known.note([row(1), row(2), row(3)])
    told.look(row(1), row(2), row(3), row(4))
    told.known.note([row(1), row(2), row(3), row(4)])
    told.look(row(2))
    assert told.renew() == [vanished(4)]


def test_what_is_published_or_parked_may_be_gone() -> None:
    told = Told()
    told.known.note([row(1), row(2), row(3)])
    told.known.done([row(1), row(3)])
    told.look(row(2))
    assert told.renew() == []
    told.known.done([row(2)])
    told.look()
    assert told.renew() == []


def test_what_a_receipt_names_is_published_also_where_it_was_missed_before() -> None:
    told = Told()
    told.known.note([row(1), row(2), row(3), row(4)])
    told.look(row(4))  # three are missed
    told.known.receipted(Receipts([Receipt.of([row(1), row(4)], fence=1, counter=1, token=1, owner="other")]))
    told.look()
    assert told.renew() == [vanished(2, 3)]


def test_a_receipt_for_another_message_at_the_position_says_nothing() -> None:
    told = Told()
    told.known.note([row(1)])
    told.known.receipted(Receipts([Receipt.of([row(1, "another")], fence=1, counter=1, token=1, owner="other")]))
    told.look()
    assert told.renew() == [vanished(1)]


def test_above_a_full_page_nobody_has_looked() -> None:
    told = Told()
    told.known.note([row(1), row(2), row(9)])
    told.look(row(1), row(3), everything=False)
    assert told.renew() == [vanished(2)]
    told.look(row(1), row(3), row(9))
    assert told.renew() == [vanished(2)]


def test_another_message_at_the_position_is_another_row() -> None:
    """The table was truncated, and positions begin at 1 again."""
    told = Told()
    told.known.note([row(1)])
    told.look(row(1, "another"))
    assert told.renew() == [vanished(1)]


def test_what_comes_back_is_not_lost() -> None:
    told = Told()
    told.known.note([row(1)])
    told.look()
    told.known.note([row(1)])
    assert told.renew() == []


def test_what_is_remembered_and_what_is_told_is_bounded() -> None:
    told = Told()
    told.known.note([row(position) for position in range(1, ROWS_MAX)])
    told.known.note([row(position) for position in range(ROWS_MAX, ROWS_MAX + 2000)])
    told.look()
    assert told.renew() == [vanished(*range(1, ROWS_MAX + 1))]
