"""What handoffs have in common, for authors of brokers: when one is void, what becomes of a batch, how long it takes.

``fencepost.ports.Handoff`` says what a handoff must keep; a plug-in takes of this what fits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from fencepost.calls import Calls
from fencepost.errors import ConfigurationError, ConnectionLost, FencepostError, ParkError
from fencepost.message import Position, Stored
from fencepost.ports import BrokerOptions, Failure, Lane, Outcome
from fencepost.receipt import Receipts

T = TypeVar("T")

_USUAL_TIMEOUT_S = 2.0
_SHARE = 0.75
"""Of the time of a publish: taking the last answers comes after it."""


class Progress:
    """What has become of a batch so far, where each message is taken or refused by itself."""

    def __init__(self) -> None:
        self.published: set[Position] = set()
        self.failed: list[Failure] = []

    @property
    def has_part(self) -> bool:
        """True where so much is known that an error of the rest can wait for the next call."""
        return bool(self.published)

    def outcome(self, batch: Sequence[Stored]) -> Outcome:
        """The same for the core."""
        return Outcome([m for m in batch if m.position in self.published], self.failed)


class Validity:
    """Whether a handoff may publish: not after its first error or a call that was cancelled, nor after its end."""

    def __init__(self, lane: Lane) -> None:
        self._over = f"the handoff of lane {lane.name} is over"
        self._void: FencepostError | None = None

    @property
    def is_void(self) -> bool:
        """True where nothing more can be published, and while something is."""
        return self._void is not None

    @contextmanager
    def publishing(self, progress: Progress | None = None) -> Iterator[None]:
        """Around all that a publish sends. Raises what made the handoff void.

        An error makes it void. Where a part of the batch has been published by then, as ``progress`` says, it is not
        raised here but by the next call.
        """
        if self._void is not None:
            raise self._void
        self.end()  # until it is clear that all is well; a cancelled call never tells
        try:
            yield
        except FencepostError as error:
            if progress is None or not progress.has_part:
                raise
            self._void = error
        else:
            self._void = None

    def end(self) -> None:
        """Nothing more is published. The first cause is the one that is told."""
        self._void = self._void or ConnectionLost(self._over, remedy="take over again")


class PlainHandoff:
    """The handoff of a broker that sends the batches itself: without receipts.

    ``send`` publishes a batch, and is given up after ``timeout_s``. ``forget`` is called at the end. Nothing is sent
    after the end, nor after a call that was given up or lost its connection; after any other error it is the owner who
    takes over again, as after every one.
    """

    def __init__(
        self,
        lane: Lane,
        timeout_s: float,
        send: Callable[[Sequence[Stored]], Awaitable[Outcome]],
        forget: Callable[[PlainHandoff], None],
    ) -> None:
        self._send, self._forget = send, forget
        self._receipts = Receipts()
        self._calls = Calls(f"the handoff of lane {lane.name}", timeout_s)

    @property
    def receipts(self) -> Receipts:
        """See Handoff: none."""
        return self._receipts

    async def publish(self, batch: Sequence[Stored]) -> Outcome:
        """See Handoff."""
        return await self._calls.make(lambda: self._send(batch))

    async def close(self) -> None:
        """See Handoff. What is under way is broken off; it may arrive."""
        self._calls.end("it is over")
        self._forget(self)


def encoded(batch: Sequence[Stored], one: Callable[[Stored], T]) -> tuple[list[T], list[Failure]]:
    """What ``one`` makes of the messages, and those for which it raises ParkError."""
    made: list[T] = []
    failed: list[Failure] = []
    for message in batch:
        try:
            made.append(one(message))
        except ParkError as error:
            failed.append(Failure(message, error))
    return made, failed


def windows(
    items: Iterable[T],
    name_of: Callable[[T], Hashable],
    bytes_of: Callable[[T], int],
    messages_max: int,
    bytes_max: int,
) -> Iterator[list[T]]:
    """The items in order, in pieces that may be under way at once.

    No name comes twice in a piece: its first one may fail, and must not be overtaken. What has the name None is sent
    alone.
    """
    window: list[T] = []
    size, names = 0, set[Hashable]()
    for item in items:
        name = name_of(item)
        if window and (name is None or name in names or len(window) >= messages_max or size > bytes_max):
            yield window
            window, size, names = [], 0, set()
        if name is None:
            yield [item]
            continue
        window.append(item)
        size += bytes_of(item)
        names.add(name)
    if window:
        yield window


def not_carried(broker: str, message: Stored, why: str, *, remedy: str = "change the message") -> ParkError:
    """What a broker (by the name that people know) has no way to carry; sending it again would not help."""
    return ParkError(f"{broker} cannot carry message {message.id}: {why}", remedy=remedy, at_once=True)


def publish_s(own_s: float | None, options: BrokerOptions) -> float:
    """How long a batch may take, from the plug-in's own setting ``publish_s``; None is most of what the lease allows.

    What is cut off by the core is in doubt, the answers that came too: so a batch has to end by itself. Raises
    ConfigurationError where the setting allows more than the core.
    """
    timeout_s = options.publish_timeout_s
    if own_s is not None and timeout_s is not None and own_s >= timeout_s:
        raise ConfigurationError(
            f"publish_s = {own_s:g} is too long: with this lease a publish is cut off after {timeout_s:g} s",
            remedy="set [lease] ttl_s higher: a publish has 0.4 of it",
        )
    return own_s or _SHARE * (_USUAL_TIMEOUT_S if timeout_s is None else timeout_s)
