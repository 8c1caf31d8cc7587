"""A broker in this process's memory: for tests, simulations and demonstrations. Nothing survives the process.

``memory://NAME`` names a server that everyone in the process shares. Its ``delivery`` setting makes it a broker of any
class: atomic (the default: a counter per lane is the fence, a batch and its receipt become visible together),
deduplicating, or plain. The server has plain methods for trouble: cut connections, refuse topics, break off in the
middle of a batch, and those of its gate. One event loop at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from fencepost import gate
from fencepost.envelope import Headers
from fencepost.errors import ConfigurationError, ConnectionLost, Fenced, ParkError
from fencepost.message import Stored
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Failure, Lane, Outcome, Term
from fencepost.receipt import RECEIPTS_KEPT, Receipt, Receipts
from fencepost.settings import Given, Settings, setting

MESSAGE_BYTES_MAX = 1_048_576

_REASONS = {
    Delivery.ATOMIC: "",
    Delivery.DEDUPLICATING: "the delivery setting asks for deduplication only",
    Delivery.PLAIN: "the delivery setting asks for a plain broker",
}


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message as a reader sees it."""

    topic: str
    id: str
    key: str | None
    payload: bytes | None
    headers: Headers


@dataclass(slots=True)
class _LaneState:
    """What the server keeps of a lane."""

    fence: int = 0
    receipts: deque[Receipt] = field(default_factory=lambda: deque(maxlen=RECEIPTS_KEPT))


class MemoryServer:
    """The shared server. What a test may look at and do to it.

    ``gate`` pauses it, makes calls fail or loses their answers. ``seen`` is told of each message when readers can see
    it, and of who published it.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.seen: Callable[[MemoryHandoff, Stored], None] = _ignore
        self.gate = gate.Gate(url)
        self.refused_topics: set[str] = set()
        self._topics: dict[str, list[Delivered]] = {}
        self._ids: set[str] = set()
        self._lanes: dict[str, _LaneState] = {}
        self._handoffs: dict[MemoryHandoff, None] = {}  # in order: a simulation must be the same each time
        self._break_after: list[int] = []

    @property
    def topics(self) -> list[str]:
        """The topics that have messages, sorted."""
        return sorted(self._topics)

    def published(self, topic: str) -> list[Delivered]:
        """What a reader of the topic sees, oldest first."""
        return list(self._topics.get(topic, ()))

    def receipts(self, lane: Lane) -> Receipts:
        """The receipts of a lane as a take-over would read them now."""
        return Receipts(self._lane(lane).receipts)

    def refuse(self, topic: str) -> None:
        """Take no messages of this topic any more, as if its name were illegal."""
        self.refused_topics.add(topic)

    def break_off(self, after: int) -> None:
        """Take only ``after`` messages of the next batch, then lose the connection. An atomic broker takes none."""
        self._break_after.append(after)

    def cut(self) -> None:
        """End every connection: handoffs are lost. The fence and the receipts stay."""
        for handoff in tuple(self._handoffs):
            handoff.end()

    def _lane(self, lane: Lane) -> _LaneState:
        return self._lanes.setdefault(lane.name, _LaneState())

    def _append(self, message: Stored, body: bytes | None, headers: Headers) -> None:
        delivered = Delivered(message.topic, message.id, message.key, body, headers)
        self._topics.setdefault(message.topic, []).append(delivered)
        self._ids.add(message.id)

    def _publishable(self, taken: int) -> int:
        """How many of the next ``taken`` messages arrive before the connection breaks."""
        return min(self._break_after.pop(0), taken) if self._break_after else taken


class MemoryHandoff:
    """The right to publish on one lane. ``fencepost.ports.Handoff`` says what each call promises."""

    def __init__(self, broker: MemoryBroker, lane: Lane, term: Term) -> None:
        self.lane, self.term = lane, term
        self._broker, self._server = broker, broker.server
        self._lane = broker.server._lane(lane)
        self._lane.fence += 1
        self._fence = self._lane.fence
        self._receipts = Receipts(self._lane.receipts if broker.delivery is Delivery.ATOMIC else ())
        self._alive = True
        self._bells = gate.Bells()
        self._server._handoffs[self] = None

    @property
    def receipts(self) -> Receipts:
        return self._receipts

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        self._must_be_alive()
        clock, timeout_s = self._broker.options.clock, self._broker.options.timeout_s
        try:
            await self._server.gate.enter("publish", clock, timeout_s, self._bells)
            self._must_be_alive()
            outcome = self._take(batch)
            self._server.gate.leave("publish")
            await clock.sleep(0)
            self._must_be_alive()
        except BaseException:  # whatever it was, nobody here knows what became of the batch
            self.end()
            raise
        return outcome

    async def close(self) -> None:
        self.end()

    def _take(self, batch: Sequence[Stored]) -> Outcome:
        """The effect of a publish, at once."""
        failures = [failure for m in batch if (failure := self._broker.failure(m)) is not None]
        if self._broker.delivery is Delivery.ATOMIC:
            return self._take_all_or_nothing(batch, failures)
        refused = {f.message.position for f in failures}
        good = [m for m in batch if m.position not in refused]
        self._append(good)
        return Outcome(good, failures)

    def _take_all_or_nothing(self, batch: Sequence[Stored], failures: Sequence[Failure]) -> Outcome:
        if self._fence != self._lane.fence:
            raise Fenced(f"{self._server.url} refused owner {self.term.owner!r}: the lane has been taken over")
        if failures or not batch:
            return Outcome((), failures)
        if self._server._publishable(len(batch)) < len(batch):
            raise ConnectionLost(f"the connection to {self._server.url} ended in the middle of a batch")
        last = self._lane.receipts[-1].counter if self._lane.receipts else 0
        owner, token = self.term.owner, self.term.token
        receipt = Receipt.of(batch, fence=self._fence, counter=last + 1, token=token, owner=owner)
        self._append(batch)
        self._lane.receipts.append(receipt)
        self._receipts.add(receipt)
        return Outcome(batch)

    def _append(self, batch: Sequence[Stored]) -> None:
        arrives = self._server._publishable(len(batch))
        for message in batch[:arrives]:
            if self._broker.append(message):
                self._server.seen(self, message)
        if arrives < len(batch):
            raise ConnectionLost(f"the connection to {self._server.url} ended in the middle of a batch")

    def _must_be_alive(self) -> None:
        if not self._alive:
            raise ConnectionLost(f"the handoff with {self._server.url} has ended")

    def end(self) -> None:
        """The connection is over: every call fails from now on."""
        self._alive = False
        self._server._handoffs.pop(self, None)
        gate.ring(self._bells)


class MemoryBroker:
    """One client of the server. ``fencepost.ports.Broker`` says what each call promises."""

    def __init__(self, server: MemoryServer, options: BrokerOptions, settings: _Settings) -> None:
        self.server = server
        self.options = options
        self.delivery = settings.delivery
        self._settings = settings
        self._envelope = options.envelope("ce_")
        self._handoffs: list[MemoryHandoff] = []
        self.refuses: Callable[[Stored], bool] = _takes
        """Whether a message is refused, this time; for tests and simulations."""

    async def open(self) -> Capabilities:
        await self._enter("open")
        return Capabilities(
            delivery=self.delivery,
            reason=_REASONS[self.delivery],
            batch_max=self._settings.batch_max,
            message_bytes_max=self._settings.message_bytes_max,
        )

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        await self._enter("prepare")

    async def take_over(self, lane: Lane, term: Term) -> MemoryHandoff:
        await self._enter("take_over")
        handoff = MemoryHandoff(self, lane, term)
        self._handoffs = [h for h in self._handoffs if h._alive]
        self._handoffs.append(handoff)
        self.server.gate.leave("take_over")
        return handoff

    async def close(self) -> None:
        for handoff in self._handoffs:
            await handoff.close()

    def failure(self, message: Stored) -> Failure | None:
        """Why the server does not take a message; None where it does."""
        if message.topic in self.server.refused_topics or self.refuses(message):
            return Failure(message, ParkError(f"topic {message.topic!r} is refused", remedy="rename the topic"))
        headers = self._envelope.headers(message)
        size = len(self._envelope.body(message) or b"") + sum(len(n) + len(v.encode()) for n, v in headers)
        if size <= self._settings.message_bytes_max:
            return None
        what = f"the message has {size:,} bytes, {self.server.url} takes {self._settings.message_bytes_max:,}"
        return Failure(message, ParkError(what, remedy="store the large part elsewhere", at_once=True))

    def append(self, message: Stored) -> bool:
        """Let readers see a message, unless the server recognises its id: then False."""
        new = self.delivery is not Delivery.DEDUPLICATING or message.id not in self.server._ids
        if new:
            self.server._append(message, self._envelope.body(message), self._envelope.headers(message))
        return new

    async def _enter(self, call: str) -> None:
        await self.server.gate.enter(call, self.options.clock, self.options.timeout_s, gate.Bells())


def _delivery(given: Given) -> Delivery:
    try:
        return Delivery(given.value)
    except ValueError:
        raise given.wrong(f"one of {', '.join(d.value for d in Delivery)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings(Settings):
    title = "memory"

    delivery: Delivery = setting(Delivery.ATOMIC, _delivery)
    message_bytes_max: int = MESSAGE_BYTES_MAX
    batch_max: int | None = None


def _ignore(*_: object) -> None:
    """Nobody wants to know."""


def _takes(_: Stored) -> bool:
    """Nothing is refused."""
    return False


_SERVERS: dict[str, MemoryServer] = {}


def server(url: str) -> MemoryServer:
    """The server of this URL, which everyone in the process shares.

    Raises ConfigurationError where the URL is not memory://NAME.
    """
    scheme, _, name = url.partition("://")
    if scheme != "memory" or not name:
        raise ConfigurationError(f"{url!r} is not the URL of a broker in memory", remedy="write memory://NAME")
    return _SERVERS.setdefault(url, MemoryServer(url))


def forget(url: str) -> None:
    """Drop a shared server, whatever it holds."""
    gone = _SERVERS.pop(url, None)
    if gone is not None:
        gone.cut()


def broker(options: BrokerOptions) -> MemoryBroker:
    """The plug-in's factory."""
    return MemoryBroker(server(options.url), options, _Settings.read(options.settings))
