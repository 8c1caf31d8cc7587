"""What the rules need of a technology besides its plug-in: somebody who writes messages, somebody who reads them.

For the plug-ins of this project they are in ``writers`` and ``readers``. A plug-in from elsewhere brings its own: a
function ``writer(options)`` or ``reader(options)`` in its module, or in one that ``--writer`` or ``--reader`` names.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol, cast, runtime_checkable

from fencepost import plugins
from fencepost.errors import ConfigurationError
from fencepost.message import Message, Stored
from fencepost.newmessage import NewMessage
from fencepost.ports import BrokerOptions, DatabaseOptions


class Transaction(Protocol):
    """A local transaction of an application."""

    async def add(self, *messages: Message) -> Sequence[Message]:
        """Add messages to the outbox, in this order; return them with their versions.

        Others see them when the transaction has committed.
        """
        ...


def new_message(m: Message) -> NewMessage:
    """The arguments that add a message with everything that it says."""
    return NewMessage(
        m.topic,
        m.payload,
        m.key,
        m.type,
        m.headers,
        m.version,
        m.content_type,
        m.id,
        m.occurred_at,
        m.available_at,
    )


@dataclass(frozen=True, slots=True)
class Parked:
    """A message that was set aside, and why."""

    message: Stored
    reason: str


class Writer(Protocol):
    """An application with an outbox, and a look into its database. It is made for one test, on tables of its own.

    Three more attributes may be there: ``payload_bytes_max`` where the database takes no payload of a megabyte (a
    larger one must be refused), ``empty_payloads``, False where it has none (one must be refused), and ``many``, how
    many messages are many to it, where ten thousand would take minutes.
    """

    @property
    def concurrent(self) -> bool:
        """True where two transactions that add messages can be open at once."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction on a connection of its own: it commits at the end, and rolls back where the block raises."""
        ...

    async def parked(self) -> Sequence[Parked]:
        """Everything that was set aside."""
        ...

    async def last_error(self, message_id: str) -> str | None:
        """The error text that the outbox keeps with a message."""
        ...

    async def close(self) -> None:
        """Remove what was made for this test and let go."""
        ...


@runtime_checkable
class Cutting(Protocol):
    """A writer who can end connections of others, where the database has any."""

    async def connections(self) -> Collection[str] | None:
        """Who is connected to the database, each with a name of its own; None where nobody can be cut off."""
        ...

    async def cut(self, connections: Collection[str]) -> None:
        """End these connections from the server's side."""
        ...


@runtime_checkable
class Replacing(Protocol):
    """A writer who can put a backup back under everybody who is connected, where a database is a file.

    All of the file goes back, whatever else is in it: the rules run one after the other on it, as pytest runs them.
    """

    async def back_up(self) -> None:
        """Make a copy of the database as it is now. Once in a test."""
        ...

    async def put_back(self) -> None:
        """Put that copy in the place of the database. Sessions that are open are told nothing, and closed by nobody."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """A writer that makes a table of its own, which is then read as an outbox."""

    async def prepare(self) -> None:
        """Make it."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as a reader of the broker sees it.

    ``attributes`` are those of CloudEvents, by their bare names ("id", "subject", "entityversion", ...), with the
    content type as "datacontenttype". ``headers`` are the application's own.
    """

    topic: str
    payload: bytes | None
    attributes: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def id(self) -> str:
        """The message's id."""
        return self.attributes["id"]


class Reader(Protocol):
    """Somebody who reads topics from their beginning, as strictly as the broker allows (Kafka: read_committed)."""

    async def read(self, topic: str) -> Sequence[Seen]:
        """Everything that can be read now, in read order (per key, where the broker keeps no more).

        Nothing where the topic does not exist.
        """
        ...

    def unpublishable(self, message: Stored) -> Stored:
        """The message, changed so that the broker will never take it (for example too large)."""
        ...

    async def close(self) -> None:
        """Let go."""
        ...


@runtime_checkable
class Expecting(Protocol):
    """A reader of a broker that keeps nothing for those who come late: it is told which topics will be published."""

    def expect(self, topic: str) -> None:
        """Be there before a message of this topic is published. May be called often."""
        ...


WriterFactory = Callable[[DatabaseOptions], Writer]
ReaderFactory = Callable[[BrokerOptions], Reader]


def writer_factory(database: str, module: str | None = None) -> WriterFactory:
    """The writer of a database plug-in. ``module`` is where it is looked for instead of the usual place."""
    return cast("WriterFactory", _factory("database", database, module, "fencepost.testing.writers", "writer"))


def complete(writer: Writer) -> Writer:
    """The writer. Raises ConfigurationError where it lacks something that the rules need."""
    missing = [name for name in vars(Writer) if not name.startswith("_") and not hasattr(writer, name)]
    if missing:
        raise ConfigurationError(
            f"the writer {type(writer).__qualname__} has no {', '.join(missing)}",
            remedy="fencepost.testing.harness.Writer says what each of them is",
        )
    return writer


def reader_factory(broker: str, module: str | None = None) -> ReaderFactory:
    """The reader of a broker plug-in. ``module`` is where it is looked for instead of the usual place."""
    return cast("ReaderFactory", _factory("broker", broker, module, "fencepost.testing.readers", "reader"))


def _factory(kind: str, name: str, module: str | None, folder: str, attribute: str) -> object:
    found = _module(kind, name, module, folder)
    factory = getattr(found, attribute, None)
    if factory is None:
        raise ConfigurationError(
            f"the rules need a {attribute} for the {kind} {name!r}; {found.__name__} has no {attribute}(options)",
            remedy=f"write one, or name the module that has it with --{attribute} (docs/testing-a-plugin.md)",
        )
    return factory


def _module(kind: str, name: str, module: str | None, folder: str) -> ModuleType:
    if module is None and name in plugins.names(kind):
        return importlib.import_module(f"{folder}.{name.replace('-', '_')}")
    return plugins.load(kind, module or name)
