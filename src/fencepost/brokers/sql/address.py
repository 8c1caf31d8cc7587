"""The URL: "inbox+", and then that of the consumer's database as it is written anywhere else."""

from __future__ import annotations

from fencepost.errors import ConfigurationError
from fencepost.sql.other import KINDS
from fencepost.words import suggestion

SCHEMES = ("mariadb", "mysql", "postgres", "postgresql", "sqlite", *KINDS)
_INBOX = ("inbox", "sql")


def database_url(url: str) -> str:
    """The URL of the consumer's database. Raises ConfigurationError; nothing of a password is repeated."""
    scheme, _, rest = url.partition("://")
    first, plus, database = scheme.partition("+")
    name = database.partition("+")[0].lower()
    if first.lower() not in _INBOX or not plus or name not in SCHEMES:
        raise ConfigurationError(
            f"{scheme}:// does not say in which database the inbox table is",
            remedy=f"write inbox+DATABASE://..., for example inbox+postgresql://; {suggestion(name, SCHEMES)}",
        )
    return f"{database}://{rest}"
