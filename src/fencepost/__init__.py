"""Fencepost delivers what a service committed: a transactional outbox, and a relay that publishes without losing,
repeating or reordering.

What an application calls is here; the relay is ``fencepost.relay``, errors are in ``fencepost.errors``.
"""

from typing import TYPE_CHECKING, Any

from fencepost.errors import (
    FencepostError,
    FixError,
    MessageRefused,
    NoTransaction,
    ParkError,
    RetryError,
    StopError,
    VersionConflict,
)
from fencepost.message import Message

if TYPE_CHECKING:
    from fencepost.outbox import AsyncOutbox, NewMessage, Outbox
    from fencepost.sql.outbox import Versions

__version__ = "0.1.0"

__all__ = [
    "AsyncOutbox",
    "FencepostError",
    "FixError",
    "Message",
    "MessageRefused",
    "NewMessage",
    "NoTransaction",
    "Outbox",
    "ParkError",
    "RetryError",
    "StopError",
    "VersionConflict",
    "Versions",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """The outbox brings SQLAlchemy along, which a command line that only answers --help should not wait for."""
    if name in {"AsyncOutbox", "NewMessage", "Outbox", "Versions"}:
        from fencepost import outbox

        return getattr(outbox, name)
    raise AttributeError(f"module 'fencepost' has no attribute {name!r}")
