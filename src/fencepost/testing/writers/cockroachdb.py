"""An application with an outbox in CockroachDB."""

from __future__ import annotations

from fencepost.testing.writers.other_sql import writer

__all__ = ["writer"]
