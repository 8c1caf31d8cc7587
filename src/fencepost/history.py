"""Comparing what was committed with what a reader saw: lost, repeated, out of order, unknown.

The one judge of demonstrations, tests and benchmarks. It keeps one entry per committed message and one per key, reads
everything once, and never needs it all in memory at the same time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

EXAMPLES = 5
"""How many examples of each kind a report shows."""


class Entry(NamedTuple):
    """A message in a history. ``key`` is anything that names the entity (None: the message has no order to keep).

    ``version`` grows with each message of a key; None means that nobody knows it. ``marked``: it said that it may be a
    repeat.
    """

    id: str
    key: Hashable | None = None
    version: int | None = None
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found. The counts are of messages; the examples are the first few of each kind, one line each.

    ``published`` counts everything that was read, repeats too. A repeat is counted as ``repeated`` only, whatever its
    order; ``unmarked`` counts those that did not say so: of the copies of a message all but one must. Which one may
    arrive last: an owner that was paused in the middle of a request sent the first one. ``out_of_order`` counts
    messages whose version is not above every earlier one of their key in the same stream. ``unknown`` was read and
    never committed: rolled back, or from somewhere else.
    """

    committed: int
    published: int
    lost: int
    repeated: int
    out_of_order: int
    unknown: int
    unmarked: int = 0
    examples: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """True where nothing is wrong."""
        return not (self.lost or self.repeated or self.out_of_order or self.unknown)

    def __str__(self) -> str:
        marked = f" ({self.repeated - self.unmarked} said so)" if self.repeated else ""
        counts = (
            f"committed {self.committed}, published {self.published}, lost {self.lost}, "
            f"repeated {self.repeated}{marked}, out of order {self.out_of_order}, unknown {self.unknown}"
        )
        return "\n  ".join([counts, *self.examples])


def compare(committed: Iterable[Entry], streams: Iterable[Iterable[Entry]]) -> Report:
    """Compare the committed messages, in any order, with what was read.

    Each stream (a partition, a subject, a topic) is given in read order; the order of a key is judged within a stream.
    """
    judge = _Judge(committed)
    for stream in streams:
        judge.read(stream)
    return judge.report()


_NOT, _MARKED, _BARE = range(3)
"""What has arrived of a message: nothing, copies with the mark only, one without it too."""


class _Judge:
    def __init__(self, committed: Iterable[Entry]) -> None:
        self._arrived = {entry.id: _NOT for entry in committed}
        self._published = 0
        self._repeated = _Kind("repeated")
        self._unmarked = 0
        self._out_of_order = _Kind("out of order")
        self._unknown = _Kind("unknown")

    def read(self, stream: Iterable[Entry]) -> None:
        arrived = self._arrived
        highest: dict[Hashable, int] = {}
        for entry in stream:
            self._published += 1
            before = arrived.get(entry.id)
            if before is None:
                self._unknown.add(_line(entry))
                continue
            if before != _NOT:
                self._repeated.add(_line(entry))
                self._unmarked += before == _BARE and not entry.marked
            else:
                self._order(entry, highest)
            arrived[entry.id] = _BARE if before == _BARE or not entry.marked else _MARKED

    def _order(self, entry: Entry, highest: dict[Hashable, int]) -> None:
        if entry.key is None or entry.version is None:
            return
        last = highest.get(entry.key)
        if last is None or entry.version > last:
            highest[entry.key] = entry.version
        else:
            self._out_of_order.add(f"{_line(entry)} after version {last}")

    def report(self) -> Report:
        lost = sum(1 for arrived in self._arrived.values() if arrived == _NOT)
        return Report(
            committed=len(self._arrived),
            published=self._published,
            lost=lost,
            repeated=self._repeated.count,
            out_of_order=self._out_of_order.count,
            unknown=self._unknown.count,
            unmarked=self._unmarked,
            examples=(
                *(f"lost: {message_id}" for message_id in islice(self._lost(), EXAMPLES)),
                *self._repeated.examples,
                *self._out_of_order.examples,
                *self._unknown.examples,
            ),
        )

    def _lost(self) -> Iterator[str]:
        return (message_id for message_id, arrived in self._arrived.items() if arrived == _NOT)


class _Kind:
    """One kind of fault: how many there were, and the first ones."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.count = 0
        self.examples: list[str] = []

    def add(self, line: str) -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{self._name}: {line}")


def _line(entry: Entry) -> str:
    key = "" if entry.key is None else f" key {entry.key!r}"
    version = "" if entry.version is None else f" version {entry.version}"
    return f"{entry.id}{key}{version}"
