"""The fenced handoff: a batch and its receipt by one script, refused where another owner has taken over since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.brokers.redis.encode import Encoded, Encoder
from fencepost.brokers.redis.keys import Keys
from fencepost.brokers.redis.parts import parts
from fencepost.brokers.redis.place import Place
from fencepost.brokers.redis.scripts import PUBLISH, TAKE_OVER
from fencepost.brokers.redis.streams import Streams
from fencepost.errors import Contention, Fenced, FixError
from fencepost.handoffs import Validity
from fencepost.message import Stored
from fencepost.ports import Failure, Lane, Outcome, Term
from fencepost.receipt import RECEIPTS_KEPT, Receipt, Receipts
from fencepost.resp.link import Word


class RedisHandoff:
    """Made by ``take_over``. ``fencepost.ports.Handoff`` says what each call promises."""

    def __init__(
        self, place: Place, encoder: Encoder, lane: Lane, term: Term, claim: str, fence: int, receipts: Receipts
    ) -> None:
        self._place, self._encoder, self._lane, self._term = place, encoder, lane, term
        self._claim, self._fence, self._receipts = claim, fence, receipts
        self._counter = receipts.last.counter if receipts.last else 0
        self._streams = Streams(place.link, create=place.create)
        keys = Keys(place.settings.prefix)
        self._own_keys = (keys.lane(lane), keys.receipts(lane))
        limit = place.settings.maxlen
        self._head: tuple[Word, ...] = (fence, claim, int(place.create), "" if limit is None else limit)
        self._validity = Validity(lane)

    @property
    def receipts(self) -> Receipts:
        """See Handoff."""
        return self._receipts

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """See Handoff. A batch that is too much for one script is handed off in parts, each with its receipt."""
        with self._validity.publishing():
            encoded, failed = self._encoder.batch(batch, self._place.limits.message_bytes_max)
            if failed or not batch:
                return Outcome((), failed)
            if failed := await self._unusable(batch, encoded):
                return Outcome((), failed)
            for part in parts(encoded, self._place.limits.batch_bytes_max):
                await self._hand_off(batch[part], encoded[part])
            await self._place.replicated()
        return Outcome(batch)

    async def close(self) -> None:
        """See Handoff. What was sent is the server's; the next take-over tells what became of it."""
        self._validity.end()

    async def _unusable(self, batch: Sequence[Stored], encoded: Sequence[Encoded]) -> list[Failure]:
        """The messages of streams that nothing can be added to."""
        faults = await self._streams.faults(dict.fromkeys([one.stream for one in encoded]))
        if not faults:
            return []
        pairs = [(m, faults.get(one.stream)) for m, one in zip(batch, encoded, strict=True)]
        return [Failure(m, error, whole_topic=True) for m, error in pairs if error is not None]

    async def _hand_off(self, batch: Sequence[Stored], encoded: Sequence[Encoded]) -> None:
        receipt = Receipt.of(
            batch, fence=self._fence, counter=self._counter + 1, token=self._term.token, owner=self._term.owner
        )
        streams = list(dict.fromkeys([one.stream for one in encoded]))
        words: list[Word] = [*self._head, receipt.encode()]
        number = {stream: n for n, stream in enumerate(streams, start=len(self._own_keys) + 1)}
        for stream, fields, _ in encoded:
            words += (number[stream], len(fields), *fields)
        self._take(await self._place.link.run(PUBLISH, [*self._own_keys, *streams], words))
        self._counter = receipt.counter
        self._receipts.add(receipt)

    def _take(self, answer: Sequence[bytes]) -> None:
        """Raise what the script says besides "published"."""
        said, *more = [word.decode(errors="replace") for word in answer]
        place, lane = self._place.link.place, self._lane.name
        if said == "fenced":
            if more[0]:
                raise Fenced(
                    f"{place} refused owner {self._term.owner!r} on lane {lane}: {more[0]!r} has taken it over"
                )
            raise Fenced(
                f"{place} refused owner {self._term.owner!r} on lane {lane}: its keys are gone",
                remedy=f"nothing may remove {self._own_keys[0]!r}: no FLUSHALL, no DEL, no eviction",
            )
        if said == "changed":
            raise Contention(f"{place}: the key {more[0]!r} was removed or became something else meanwhile")


async def take_over(place: Place, encoder: Encoder, lane: Lane, term: Term, claim: str) -> RedisHandoff:
    """Fence the earlier owners and read the lane's receipts.

    ``claim`` is a text that no take-over had before: a server that forgot its last writes counts the same fence twice.
    """
    keys = Keys(place.settings.prefix)
    fence, entries = await place.link.run(
        TAKE_OVER, (keys.lane(lane), keys.receipts(lane)), (claim, term.owner, term.token)
    )
    await place.replicated()  # what the receipts name must not be settled before replicas have it
    receipts = Receipts([_receipt(each, keys.receipts(lane)) for each in entries[-RECEIPTS_KEPT:]])
    return RedisHandoff(place, encoder, lane, term, claim, int(fence), receipts)


def _receipt(entry: Sequence[Any], key: str) -> Receipt:
    raw_id, fields = entry
    try:
        return Receipt.decode(dict(zip(fields[::2], fields[1::2], strict=True))[b"receipt"])
    except (KeyError, ValueError) as error:
        raise FixError(
            f"the entry {raw_id.decode()} of {key!r} is not a receipt: {error}",
            remedy="find out who else writes there, and XDEL the entry",
        ) from error
