"""What the core asks of a store of leases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.ports.tenure import Term


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOptions:
    """Where leases are kept. ``settings`` are the plug-in's own; it refuses unknown ones."""

    url: str
    schema: str | None = None
    prefix: str = "fencepost_"
    timeout_s: float = 5.0
    settings: Mapping[str, object] = field(default_factory=dict)
    clock: Clock = SYSTEM_CLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who has a lease, as the store sees it. ``remaining_s`` is at most 0 where it has ended."""

    owner: str
    token: int
    remaining_s: float
    held_s: float


class LeaseStore(Protocol):
    """Where leases are kept. The store's clock judges expiry.

    ``fences`` says in a few words what a token of this store protects ("rows of the same database", "nothing by
    itself").
    """

    @property
    def fences(self) -> str: ...

    async def open(self) -> None:
        """Connect. Raises FixError for what a person must change, RetryError otherwise. May be called again after a
        fault.
        """
        ...

    async def rehearse(self) -> None:
        """See whether leases could be taken, and change nothing. Raises AccessDenied where this user may not take any,
        Unavailable where nobody may now.
        """
        ...

    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        """A new term with a larger token than any before; None where another owner has the lease and is not seen to
        be gone.
        """
        ...

    async def renew(self, term: Term, ttl_s: float) -> bool:
        """Extend exactly this term. False where it is not the current one (any more): it is over for good."""
        ...

    async def release(self, term: Term) -> None:
        """End exactly this term and wake those who wait. Releasing a term that is over does nothing."""
        ...

    async def wait(self, name: str, timeout_s: float) -> None:
        """Return when the lease may have become free, at the latest after ``timeout_s``. May return early.

        The owner may wait too: it returns when its term may have been lost.
        """
        ...

    async def holder(self, name: str) -> Holder | None:
        """Who has the lease, None where nobody ever had it or it was released."""
        ...

    async def close(self) -> None:
        """Close the connection. Never raises. Session evidence of terms that are still held ends with it."""
        ...
