"""A flow is a generator that yields statements and is sent their rows: one text for the sync and the async world.

    def add(...) -> Flow[S, R, Message]:
        rows = yield statement
        ...
        return message

``run`` and ``run_async`` are the only seam between the two; everything above and below is written once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")

Flow = Generator[S, R, T]
"""Yields statements (S), is sent their results (R), returns T."""


def run(flow: Generator[S, R, T], execute: Callable[[S], R]) -> T:
    """Drive a flow with a blocking ``execute``. An error of ``execute`` is thrown into the flow, which may handle
    it.
    """
    try:
        statement = next(flow)
        while True:
            try:
                result = execute(statement)
            except Exception as error:  # noqa: BLE001 - the flow decides
                statement = flow.throw(error)
            else:
                statement = flow.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def run_async(flow: Generator[S, R, T], execute: Callable[[S], Awaitable[R]]) -> T:
    """Drive a flow with an ``execute`` that is awaited. The same rules as ``run``."""
    try:
        statement = next(flow)
        while True:
            try:
                result = await execute(statement)
            except Exception as error:  # noqa: BLE001 - the flow decides
                statement = flow.throw(error)
            else:
                statement = flow.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value
