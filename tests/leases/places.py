"""Lease stores on real databases, as several processes see them."""

import secrets
from collections.abc import Mapping
from pathlib import Path

import sqlalchemy as sa

from fencepost import plugins
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.ports import LeaseOptions, LeaseStore
from fencepost.sql.tables import tables

KINDS = ("memory", "sqlite", "postgresql", "mariadb")
SQL_KINDS = ("sqlite", "postgresql", "mariadb")
SERVERS = ("postgresql", "mariadb")


class Place:
    """An empty place for leases. Every store is a session of its own, closed at the end of the test."""

    def __init__(self, kind: str, url: str, options: LeaseOptions) -> None:
        self.kind, self.url, self.options = kind, url, options
        self.stores: list[LeaseStore] = []

    def store(
        self,
        *,
        url: str | None = None,
        timeout_s: float = 5.0,
        settings: Mapping[str, object] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> LeaseStore:
        options = LeaseOptions(
            url=url or self.url,
            schema=self.options.schema,
            prefix=self.options.prefix,
            timeout_s=timeout_s,
            settings=settings or {},
            clock=clock,
        )
        store: LeaseStore = plugins.load("election", self.kind).lease_store(options)
        self.stores.append(store)
        return store

    async def sessions(self, count: int, timeout_s: float = 5.0) -> list[LeaseStore]:
        """As many stores, open: what follows is not slowed down by connecting."""
        stores = [self.store(timeout_s=timeout_s) for _ in range(count)]
        for store in stores:
            await store.open()
        return stores

    async def close_stores(self) -> None:
        for store in self.stores:
            await store.close()

    async def close(self) -> None:
        await self.close_stores()
        if self.kind in SERVERS:
            self.execute("DROP TABLE {lease}")

    def execute(self, statement: str, **values: object) -> list[tuple[object, ...]]:
        """Run a statement as somebody else; ``lease`` in braces is the table."""
        engine = sa.create_engine(sync_url(self.url))
        table = tables(schema=self.options.schema, prefix=self.options.prefix).lease.fullname
        try:
            with engine.begin() as connection:
                result = connection.execute(sa.text(statement.format(lease=table)), values)
                return [tuple(row) for row in result] if result.returns_rows else []
        finally:
            engine.dispose()


def sync_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://").replace("mysql://", "mysql+pymysql://")


def make_place(kind: str, url: str, *, schema: str | None = None, prefix: str = "fencepost_") -> Place:
    """A place with its table, where it needs one."""
    options = LeaseOptions(url=url, schema=schema, prefix=prefix)
    if kind != "memory":
        engine = sa.create_engine(sync_url(url))
        tables(schema=schema, prefix=prefix).lease.create(engine)
        engine.dispose()
    return Place(kind, url, options)


def local_url(kind: str, folder: Path) -> str:
    return f"memory://{fresh()}" if kind == "memory" else f"sqlite:///{folder / 'leases.db'}"


def fresh() -> str:
    return secrets.token_hex(4)
