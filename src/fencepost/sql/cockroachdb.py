"""CockroachDB, which speaks PostgreSQL's protocol: how it is recognised, and SQLAlchemy's words for it.

Applications use the dialect of the package sqlalchemy-cockroachdb. A relay needs less, and no package that would hold
back SQLAlchemy's releases: PostgreSQL's dialect without the questions that only a PostgreSQL answers.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.engine import Connection

from fencepost.errors import ConfigurationError

_GREETING = "crdb_version"


class CockroachDialect(PGDialect_asyncpg):
    """On asyncpg, under the name that the statements are chosen by."""

    name = "cockroachdb"
    supports_statement_cache = True

    def _get_server_version_info(self, _: Connection) -> tuple[int, ...]:
        return (13, 0)  # of the PostgreSQL whose syntax it knows

    async def setup_asyncpg_json_codec(self, conn: Any) -> None:
        """Nothing: no column has that type, and the question would be one that only a PostgreSQL answers."""

    async def setup_asyncpg_jsonb_codec(self, conn: Any) -> None:
        """Nothing, as above."""


registry.register("fencepost.cockroachdb", __name__, CockroachDialect.__name__)


def refuse(settings: object, place: str) -> None:
    """Raise ConfigurationError where a server that was taken for a PostgreSQL has said that it is a CockroachDB.

    ``settings`` are what it told when it greeted, as attributes.
    """
    version = getattr(settings, _GREETING, None)
    if version is not None:
        raise ConfigurationError(
            f"{place} is a CockroachDB ({version}), which has neither PostgreSQL's advisory locks nor LISTEN/NOTIFY",
            remedy="write cockroachdb:// instead of postgresql:// in the URL, and read docs/other-sql.md first",
        )
