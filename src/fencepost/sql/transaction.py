"""The contract between a driver and what works inside the caller's own transaction: what a driver hands back for it.

A driver is one module with one function, ``join(tx)``. It recognises the connections and sessions of its library and
returns one of the three shapes below, or None for any other object of that library. It raises NoTransaction where what
is executed would be committed by itself. It never begins, commits or rolls back: the transaction stays the caller's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from sqlalchemy.engine import Dialect

from fencepost.flows import Flow
from fencepost.message import Message
from fencepost.sql.statements import Prepared

T = TypeVar("T")

Rows = Sequence[Sequence[Any]]


class Call(NamedTuple):
    """One statement with its values by name: what a flow yields, one round trip each."""

    statement: Prepared
    values: Mapping[str, Any]


Work = Flow[Call, Rows, T]
"""A flow over the caller's connection that ends with a T."""


class Writer(Protocol):
    """Somebody whose messages are written at a later flush. Writers that compare equal write together."""

    @property
    def place(self) -> str:
        """Writers of one flush write in the order of their places: any two transactions lock in the same order."""
        ...

    def write(self, dialect: Dialect, messages: Sequence[Message]) -> Work[list[Message]]:
        """Write the messages; return them, in the same order, with their versions."""
        ...


class Blocking(NamedTuple):
    """A connection with a blocking ``execute``."""

    dialect: Dialect
    execute: Callable[[Call], Rows]


class Awaiting(NamedTuple):
    """A connection whose ``execute`` is awaited."""

    dialect: Dialect
    execute: Callable[[Call], Awaitable[Rows]]


class UnitOfWork(NamedTuple):
    """A session that collects objects and writes them when it is flushed.

    ``enlist`` makes a message one of these objects; it does no I/O. A flush, a roll-back (also to a savepoint) and an
    expunge do to it what they do to a new mapped object.
    """

    dialect: Dialect
    asynchronous: bool
    enlist: Callable[[Writer, Message], None]


Joined = Blocking | Awaiting | UnitOfWork
