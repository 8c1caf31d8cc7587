"""Independent readers of what was published: they use the broker's own client library and nothing of the relay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

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


def told_apart(found: Iterable[tuple[Entry, bool]]) -> list[Entry]:
    """The entries; with each whether it said that it may be a repeat."""
    return [one._replace(marked=marked) for one, marked in found]


async def cancelled(task: asyncio.Task[None]) -> None:
    """End a task and wait for it; an error that it ended with before is raised."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
