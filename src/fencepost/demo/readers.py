"""Independent readers of what was published: they use the broker's own client library and nothing of the relay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol

from fencepost.history import Entry

OnEntry = Callable[[Entry], None]


class Stage(Protocol):
    """A topic of a demonstration's own at a broker."""

    @property
    def settings(self) -> Mapping[str, object]:
        """Keys of ``[broker]`` that the relays need besides the URL."""
        ...

    async def create(self) -> None:
        """Make the topic. Raises FixError or RetryError where the broker cannot be reached or refuses."""
        ...

    def following(self, on_entry: OnEntry) -> AbstractAsyncContextManager[None]:
        """Read from the beginning and go on; ``on_entry`` is called in the event loop for each message."""
        ...

    async def read_back(self) -> Sequence[Sequence[Entry]]:
        """Read everything once more, by a new reader: one sequence for each partition."""
        ...

    async def drop(self) -> None:
        """Remove what ``create`` and the relays made for this demonstration. Never raises."""
        ...


def entry(headers: Mapping[str, str], prefix: str) -> Entry:
    """The entry that a message's CloudEvents headers tell. Without an id the comparison reports it as unknown."""
    version = headers.get(f"{prefix}entityversion", "")
    return Entry(
        headers.get(f"{prefix}id", "no id"),
        headers.get(f"{prefix}subject"),
        int(version) if version.isdigit() else None,
        headers.get(f"{prefix}possiblerepeat") == "true",
    )


class Taken:
    """What a reader took who is there all the time, kept in memory in the order in which it came."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._followers: list[OnEntry] = []

    def add(self, one: Entry) -> None:
        """Keep one more, and tell those who follow. In the event loop."""
        self._entries.append(one)
        for follower in self._followers:
            follower(one)

    @contextmanager
    def following(self, on_entry: OnEntry) -> Iterator[None]:
        """``on_entry`` is called for each that came before, and for each that comes while the block lasts."""
        for one in self._entries:
            on_entry(one)
        self._followers.append(on_entry)
        try:
            yield
        finally:
            self._followers.remove(on_entry)

    def partitions(self) -> Sequence[Sequence[Entry]]:
        """All of it, as one partition."""
        return [list(self._entries)]


@asynccontextmanager
async def beside(reading: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """It reads while the block lasts."""
    task = asyncio.create_task(reading)
    try:
        yield
    finally:
        await cancelled(task)


async def cancelled(task: asyncio.Task[None]) -> None:
    """End a task and wait for it; an error that it ended with before is raised."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
