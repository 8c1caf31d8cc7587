"""What the owner has read and neither published nor parked yet: rows that must be there at the next look.

Those that are not were deleted by somebody else: a truncated table, a careless DELETE, a database that lost its last
transactions. Their messages will never be published, so it is said which they were. The relay goes on: there is
nothing else that it could do for them.

There is one other reason: somebody else owns the lane, has published them and settled them, and this owner, paused or
cut off, does not know it yet. So nothing is told before trust has been renewed twice. The second renewal began after
the look, and shows that the lane still has this owner.

And without a fence an earlier owner may come back: what it had in hand when it was replaced it may have published all
the same, and settles it then. Receipts would name that. Where the broker has none, nothing is told of the rows that are
there at the first look which reaches the end; what comes later no earlier owner has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fencepost.events import Observer, RowsVanished
from fencepost.message import Position, Stored
from fencepost.receipt import Receipts, digest

ROWS_MAX = 10_000
"""So many rows are remembered at most; it is about two pages that are in hand."""

IDS_TOLD = 20

_RENEWED_S = 0.001  # less than a renewal moves the end of trust, more than two clock readings differ
_RENEWALS = 2


class Known:
    """The rows of one term. ``trusted_until_s`` tells when the owner's trust ends, by the monotonic clock. ``fenced``:
    no earlier owner can publish any more, and receipts name what it has published.
    """

    def __init__(self, lane: str, observer: Observer, trusted_until_s: Callable[[], float], *, fenced: bool) -> None:
        self._lane, self._observer, self._trusted_until_s = lane, observer, trusted_until_s
        self._inherited: set[tuple[Position, str]] | None = set() if fenced else None
        self._rows: dict[Position, str] = {}
        self._gone: list[tuple[Position, str]] = []
        self._renewals = 0
        self._until_s = 0.0

    def note(self, rows: Sequence[Stored]) -> None:
        """These were read, and nobody has them in hand."""
        if self._inherited is None:
            return
        own = [row for m in rows if (row := (m.position, m.id)) not in self._inherited]
        noted = own[: max(0, ROWS_MAX - len(self._rows))]
        self._rows.update(noted)
        if self._gone:  # a database that fell back, and came back
            self._gone = [row for row in self._gone if row not in noted]

    def done(self, messages: Iterable[Stored]) -> None:
        """These are published, or about to be parked: from now on they may be gone."""
        for m in messages:
            self._rows.pop(m.position, None)

    def receipted(self, receipts: Receipts) -> None:
        """What these name is published, by whomever."""
        rows = [*self._rows.items(), *self._gone]
        if not rows:
            return
        named = receipts.named({position for position, _ in rows})
        self._rows = {p: id_ for p, id_ in self._rows.items() if (p, digest(id_)) not in named}
        self._gone = [(p, id_) for p, id_ in self._gone if (p, digest(id_)) not in named]

    def look(self, rows: Sequence[Stored], *, everything: bool) -> None:
        """Compare with what was read from the bottom just now; ``everything`` means that no more rows wait."""
        if self._inherited is None and everything:
            self._inherited = {(m.position, m.id) for m in rows}
        missing = self._missing(rows, everything=everything) if self._rows else []
        if missing:
            for position, _ in missing:
                del self._rows[position]
            self._gone += missing
            self._renewals, self._until_s = 0, self._trusted_until_s()
        elif self._gone and self._is_renewed():
            self._tell()

    def _missing(self, rows: Sequence[Stored], *, everything: bool) -> list[tuple[Position, str]]:
        there = {m.position: m.id for m in rows}
        known = [(position, id_) for position, id_ in self._rows.items() if there.get(position) != id_]
        if everything or not known:
            return known
        last = rows[-1].position
        return [row for row in known if row[0] <= last]  # type: ignore[operator]

    def _is_renewed(self) -> bool:
        until_s = self._trusted_until_s()
        if until_s > self._until_s + _RENEWED_S:
            self._renewals, self._until_s = self._renewals + 1, until_s
        return self._renewals >= _RENEWALS

    def _tell(self) -> None:
        gone, self._gone = sorted(self._gone), []
        self._observer(
            RowsVanished(
                lane=self._lane,
                rows=len(gone),
                first=gone[0][0],
                last=gone[-1][0],
                message_ids=tuple(id_ for _, id_ in gone[:IDS_TOLD]),
            )
        )
