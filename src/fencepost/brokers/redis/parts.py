"""A batch in the pieces in which it can be given to a server. Most batches are one.

Each piece is handed off like a batch, with a receipt of its own. So there must be few: the receipts of two batches,
one being settled while the next is sent, have to be among those that are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fencepost.brokers.redis.encode import Encoded
from fencepost.errors import FixError
from fencepost.receipt import RECEIPTS_KEPT

PART_BYTES = 16_000_000
"""What one script is given, about, unless the parts would be too many."""
PART_WORDS = 200_000
PARTS_MAX = RECEIPTS_KEPT // 4


def parts(encoded: Sequence[Encoded], bytes_max: int) -> list[slice]:
    """The batch as ranges of its messages. ``bytes_max`` is what the server takes at once.

    Raises FixError where that would be too many.
    """
    total = sum([one.size for one in encoded])
    aim = min(bytes_max, max(PART_BYTES, 2 * total // PARTS_MAX))
    if total <= aim and sum([len(one.words) for one in encoded]) <= PART_WORDS:
        return [slice(0, len(encoded))]
    found = list(_cut(encoded, aim))
    if len(found) > PARTS_MAX:
        raise FixError(
            f"a batch of {len(encoded):,} messages and {total:,} bytes is too large: the server takes {bytes_max:,} at"
            " once",
            remedy="lower [relay] batch and batch_bytes, or raise the server's client-query-buffer-limit",
        )
    return found


def _cut(encoded: Sequence[Encoded], aim: int) -> Iterator[slice]:
    first = size = words = 0
    for at, one in enumerate(encoded):
        if at > first and (size + one.size > aim or words + len(one.words) > PART_WORDS):
            yield slice(first, at)
            first, size, words = at, 0, 0
        size, words = size + one.size, words + len(one.words)
    yield slice(first, len(encoded))
