"""Evidence that the owner of a lease is gone: a lock that its session holds and that ends with the session.

It is evidence and never the lease itself: a free lock lets a candidate take the lease before it has expired, a held one
proves nothing (a paused owner holds it too). One small class per dialect.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote
from zlib import crc32

import sqlalchemy as sa
from sqlalchemy.sql.expression import ColumnElement

from fencepost.sql.link import Wire

try:
    import fcntl
except ImportError:  # not a POSIX system: files give no evidence there
    fcntl = None  # type: ignore[assignment]

_TOKENS = 2**31  # what an int4 can hold


class Seen(enum.Enum):
    """What can be said of an owner's session."""

    ALIVE = enum.auto()
    """Its lock is held: the session is there, though its process may be paused."""
    GONE = enum.auto()
    UNKNOWN = enum.auto()


class SessionEvidence(Protocol):
    """The locks of one session. Where none can be had ``hold`` is False and ``seen`` UNKNOWN; neither raises for it."""

    @property
    def free_of_charge(self) -> bool:
        """Whether ``seen`` needs no statement, so that it may be asked often."""
        ...

    @property
    def can_wait(self) -> bool:
        """Whether ``gone_within`` can be asked."""
        ...

    def probe(self, name: str, token: ColumnElement[int]) -> ColumnElement[bool]:
        """As a column of a query: whether the owner with this token is gone. False where a query cannot tell."""
        ...

    async def gone_within(self, name: str, token: int, timeout_s: float) -> bool:
        """One statement that returns when the session of this term has let go, or after the time."""
        ...

    async def hold(self, name: str, token: int) -> bool:
        """Lock a term as this session's. True where it is (also: was already) held. Before the term is committed."""
        ...

    async def seen(self, name: str, token: int) -> Seen:
        """What became of the session of this term. What it locks to find out is free again when it returns, or with
        the transaction's end.
        """
        ...

    async def let_go(self, name: str, token: int) -> None:
        """Unlock a term that has ended, and take away what remains of it. Harmless where it is not held."""
        ...

    def abandon(self, name: str, token: int) -> None:
        """Unlock a term of which nobody knows whether it is in the database. The connection is gone already."""
        ...

    def close(self) -> None:
        """Unlock everything."""
        ...


class CannotWait:
    """Evidence that has to be asked again and again."""

    can_wait = False

    async def gone_within(self, name: str, token: int, timeout_s: float) -> bool:
        """See SessionEvidence; it is never called."""
        return False


class NoEvidence(CannotWait):
    """Where sessions prove nothing, or nobody wants them to."""

    free_of_charge = False

    def probe(self, name: str, token: ColumnElement[int]) -> ColumnElement[bool]:
        return sa.false()

    async def hold(self, name: str, token: int) -> bool:
        return False

    async def seen(self, name: str, token: int) -> Seen:
        return Seen.UNKNOWN

    async def let_go(self, name: str, token: int) -> None:
        return

    def abandon(self, name: str, token: int) -> None:
        return

    def close(self) -> None:
        return


class AdvisoryLocks(CannotWait):
    """PostgreSQL: advisory locks of one connection. ``space`` keeps apart the lease tables of one database."""

    free_of_charge = False

    def __init__(self, wire: Wire, space: str) -> None:
        self._wire = wire
        self._space = space
        self._held: set[tuple[str, int]] = set()

    def probe(self, name: str, token: ColumnElement[int]) -> ColumnElement[bool]:
        # A lock of the transaction, which is this one statement: it cannot be left behind.
        return sa.func.pg_try_advisory_xact_lock(self._place(name), _number(token), type_=sa.Boolean)

    async def hold(self, name: str, token: int) -> bool:
        if (name, token) not in self._held and await self._ask(sa.func.pg_try_advisory_lock, name, token):
            self._held.add((name, token))
        return (name, token) in self._held

    async def seen(self, name: str, token: int) -> Seen:
        if (name, token) in self._held:  # a session never waits for itself
            return Seen.ALIVE
        free = await self._ask(sa.func.pg_try_advisory_xact_lock, name, token)
        return Seen.GONE if free else Seen.ALIVE

    async def let_go(self, name: str, token: int) -> None:
        if (name, token) in self._held:
            self._held.discard((name, token))
            await self._ask(sa.func.pg_advisory_unlock, name, token)

    def abandon(self, name: str, token: int) -> None:
        self._held.discard((name, token))  # the lock went with the connection

    def close(self) -> None:
        self._held.clear()

    async def _ask(self, function: Any, name: str, token: int) -> bool:
        row = await self._wire.first(
            sa.select(function(self._place(name), _number(sa.literal(token, sa.BigInteger()))))
        )
        return row is not None and bool(row[0])

    def _place(self, name: str) -> ColumnElement[int]:
        number = crc32(f"{self._space}.{name}".encode())
        return sa.cast(number - 2**32 if number >= 2**31 else number, sa.Integer)


def _number(token: ColumnElement[int]) -> ColumnElement[int]:
    return sa.cast(token % _TOKENS, sa.Integer)


class NamedLocks:
    """MariaDB and MySQL: named locks of one connection. ``space`` keeps apart the lease tables of one server.

    They belong to one server, so they are no evidence where several take writes (Galera).
    """

    free_of_charge = False
    can_wait = True

    def __init__(self, wire: Wire, space: str) -> None:
        self._wire = wire
        self._space = space
        self._held: set[tuple[str, int]] = set()

    def probe(self, name: str, token: ColumnElement[int]) -> ColumnElement[bool]:
        called = sa.func.concat(sa.literal_column(f"'{self._prefix(name)}'"), token)
        return sa.func.is_free_lock(called) == sa.literal_column("1")

    async def hold(self, name: str, token: int) -> bool:
        if (name, token) not in self._held and await self._get(name, token, 0.0):
            self._held.add((name, token))
        return (name, token) in self._held

    async def seen(self, name: str, token: int) -> Seen:
        if (name, token) in self._held:
            return Seen.ALIVE
        free = await self._wire.first(sa.select(sa.func.is_free_lock(self._called(name, token))))
        return Seen.GONE if free is not None and free[0] == 1 else Seen.ALIVE

    async def gone_within(self, name: str, token: int, timeout_s: float) -> bool:
        gone = await self._get(name, token, timeout_s)
        if gone:
            await self._release(name, token)
        return gone

    async def let_go(self, name: str, token: int) -> None:
        if (name, token) in self._held:
            self._held.discard((name, token))
            await self._release(name, token)

    def abandon(self, name: str, token: int) -> None:
        self._held.discard((name, token))  # the lock went with the connection

    def close(self) -> None:
        self._held.clear()

    async def _get(self, name: str, token: int, timeout_s: float) -> bool:
        row = await self._wire.first(sa.select(sa.func.get_lock(self._called(name, token), timeout_s)))
        return row is not None and row[0] == 1

    async def _release(self, name: str, token: int) -> None:
        await self._wire.first(sa.select(sa.func.release_lock(self._called(name, token))))

    def _called(self, name: str, token: int) -> str:
        return f"{self._prefix(name)}{token}"

    def _prefix(self, name: str) -> str:
        digest = hashlib.blake2b(f"{self._space}.{name}".encode(), digest_size=12)
        return f"fencepost_{digest.hexdigest()}_"  # with a token at most 64 characters, which is all that MySQL takes


class FileLocks(CannotWait):
    """SQLite: a locked file beside the database for each term, ``DATABASE-TABLE-NAME.TOKEN.lock``.

    The kernel unlocks it when the process ends, however it ends. Its absence proves nothing: it may have been released,
    or the database may be a copy.
    """

    free_of_charge = True

    def __init__(self, database: Path, table: str) -> None:
        self._prefix = f"{database}-{table}-"
        self._held: dict[tuple[str, int], int] = {}

    def probe(self, name: str, token: ColumnElement[int]) -> ColumnElement[bool]:
        return sa.false()

    async def hold(self, name: str, token: int) -> bool:
        if (name, token) not in self._held:
            descriptor = _locked(self._file(name, token), os.O_RDWR | os.O_CREAT, exclusive=True)
            if isinstance(descriptor, int):
                self._held[name, token] = descriptor
        return (name, token) in self._held

    async def seen(self, name: str, token: int) -> Seen:
        found = _locked(self._file(name, token), os.O_RDONLY, exclusive=False)
        if isinstance(found, Seen):
            return found
        os.close(found)
        return Seen.GONE

    async def let_go(self, name: str, token: int) -> None:
        self.abandon(name, token)
        with contextlib.suppress(OSError):
            self._file(name, token).unlink()

    def abandon(self, name: str, token: int) -> None:
        descriptor = self._held.pop((name, token), None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        for name, token in list(self._held):
            self.abandon(name, token)

    def _file(self, name: str, token: int) -> Path:
        return Path(f"{self._prefix}{quote(name, safe='')}.{token}.lock")


def files_can_be_locked() -> bool:
    """Whether this system has locks that the kernel frees with the process."""
    return fcntl is not None


def _locked(path: Path, flags: int, *, exclusive: bool) -> int | Seen:
    """A descriptor that holds the file's lock; ALIVE where somebody else holds it, UNKNOWN where none can be had."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError:
        return Seen.UNKNOWN
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        return Seen.ALIVE if isinstance(error, BlockingIOError) else Seen.UNKNOWN
    return descriptor
