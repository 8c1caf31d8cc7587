"""The receipt: the record, kept by the broker beside the batch itself, of which positions a lane has published.

A receipt names each message by its position and a 4-byte digest of its id. The digest is what makes a receipt safe
after a database fell back to an earlier state and handed a position out again: another message there is not mistaken
for the published one.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fencepost.message import Position, Stored

RECEIPTS_KEPT = 64
"""How many receipts of a lane the broker keeps. More than one, so that a settle may run while the next batch is
sent.
"""

PositionRange = tuple[Position, Position]
"""First and last position, both included."""


def digest(message_id: str) -> int:
    """4 bytes of a message id, the same in every process and version."""
    return zlib.crc32(message_id.encode())


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one batch published. ``fence`` is the broker's number of the owner; token and owner are there for people
    to read.
    """

    fence: int
    counter: int
    token: int
    owner: str
    positions: tuple[Position, ...]
    digests: tuple[int, ...]

    @classmethod
    def of(cls, batch: Sequence[Stored], *, fence: int, counter: int, token: int, owner: str) -> Receipt:
        """The receipt that travels with ``batch``."""
        positions, digests = [m.position for m in batch], [zlib.crc32(m.id.encode()) for m in batch]
        return cls(fence, counter, token, owner, tuple(positions), tuple(digests))

    def ranges(self) -> list[PositionRange]:
        """The positions as ranges, in order."""
        return _ranges(self.positions)

    def encode(self) -> bytes:
        """JSON in UTF-8: whole-number positions as ranges, digests as base64 of big-endian 4-byte numbers."""
        positions: list[object] = [a if a == b else [a, b] for a, b in self.ranges()]
        record = {
            "fence": self.fence,
            "counter": self.counter,
            "token": self.token,
            "owner": self.owner,
            "positions": positions,
            "digests": base64.b64encode(struct.pack(f">{len(self.digests)}I", *self.digests)).decode(),
        }
        return json.dumps(record, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Receipt:
        """The receipt that ``encode`` wrote. Raises ValueError where the bytes are not one."""
        try:
            record = json.loads(data)
            positions = tuple(_positions(record["positions"]))
            packed = base64.b64decode(record["digests"], validate=True)
            digests = struct.unpack(f">{len(packed) // 4}I", packed[: len(packed) // 4 * 4])
            receipt = cls(record["fence"], record["counter"], record["token"], record["owner"], positions, digests)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a receipt: {data[:80]!r}") from error
        if len(positions) != len(digests) or len(packed) % 4:
            raise ValueError(f"a receipt with {len(positions)} positions and {len(digests)} digests")
        return receipt


class Receipts:
    """The receipts of a lane, oldest first, never more than RECEIPTS_KEPT: what an owner read at take-over and wrote
    since.
    """

    def __init__(self, receipts: Iterable[Receipt] = ()) -> None:
        self._kept: deque[Receipt] = deque(receipts, maxlen=RECEIPTS_KEPT)

    def add(self, receipt: Receipt) -> None:
        """Keep one more; the oldest goes where there are too many."""
        self._kept.append(receipt)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Receipt]:
        """Oldest first."""
        return iter(self._kept)

    @property
    def last(self) -> Receipt | None:
        """The newest one."""
        return self._kept[-1] if self._kept else None

    def named(self, positions: Container[Position] | None = None) -> set[tuple[Position, int]]:
        """Every (position, digest) that is named, or those at ``positions``: all of them may need 30 MB."""
        pairs = (pair for r in self._kept for pair in zip(r.positions, r.digests, strict=True))
        return set(pairs) if positions is None else {pair for pair in pairs if pair[0] in positions}

    def ranges(self) -> list[PositionRange]:
        """All positions that are named, as ranges, in order, each once."""
        return merged(each for r in self._kept for each in r.ranges())

    def highest(self) -> Position | None:
        """The highest position that is named."""
        tops = [max(r.positions) for r in self._kept if r.positions]
        return max(tops) if tops else None


def merged(ranges: Iterable[PositionRange]) -> list[PositionRange]:
    """The ranges in order, each once; those of whole numbers that overlap or touch made one."""
    result: list[PositionRange] = []
    for first, last in sorted(set(ranges)):
        before = result[-1][1] if result else None
        if isinstance(before, int) and isinstance(first, int) and isinstance(last, int) and first <= before + 1:
            result[-1] = (result[-1][0], max(before, last))
        else:
            result.append((first, last))
    return result


def _ranges(positions: Sequence[Position]) -> list[PositionRange]:
    numbers = [p for p in positions if isinstance(p, int)]
    if len(numbers) < len(positions):
        return [(p, p) for p in positions]
    if numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers))):  # the usual case, without a loop
        return [(numbers[0], numbers[-1])]
    return list(_runs(numbers))


def _runs(numbers: Iterable[int]) -> Iterable[PositionRange]:
    start = previous = None
    for number in numbers:
        if previous is None or number != previous + 1:
            if start is not None and previous is not None:
                yield (start, previous)
            start = number
        previous = number
    if start is not None and previous is not None:
        yield (start, previous)


def _positions(items: Iterable[object]) -> Iterable[Position]:
    for item in items:
        if isinstance(item, list):
            yield from range(int(item[0]), int(item[1]) + 1)
        elif isinstance(item, int | str):
            yield item
        else:
            raise TypeError(f"a position of type {type(item).__name__}")
