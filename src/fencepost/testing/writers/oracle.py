"""An application with an outbox in Oracle."""

from __future__ import annotations

from fencepost.testing.writers.other_sql import writer

__all__ = ["writer"]
