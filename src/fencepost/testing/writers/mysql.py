"""An application with an outbox in MySQL: the same as for MariaDB."""

from __future__ import annotations

from fencepost.testing.writers.mariadb import writer

__all__ = ["writer"]
