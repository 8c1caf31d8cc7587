"""An application with an outbox in SQL Server."""

from __future__ import annotations

from fencepost.testing.writers.other_sql import writer

__all__ = ["writer"]
