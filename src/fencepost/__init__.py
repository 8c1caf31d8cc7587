"""Fencepost delivers what a service committed: a transactional outbox, and a relay that publishes without losing,
repeating or reordering.

What an application calls is here; the relay is ``fencepost.relay``, errors are in ``fencepost.errors``.
"""

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
from fencepost.outbox import AsyncOutbox, NewMessage, Outbox

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
    "__version__",
]
