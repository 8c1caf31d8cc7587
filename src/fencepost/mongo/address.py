"""Where an outbox in MongoDB is: the URL, taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from pymongo.common import VALIDATORS
from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from fencepost.errors import ConfigurationError
from fencepost.plugins import name_of
from fencepost.servers import check_password
from fencepost.words import meant

COLLECTION = "mongodb"
EMBEDDED = "mongodb-embedded"

_WRITE = "write mongodb://user@host:port/database, several hosts with commas"
_OPTIONS = ("collections", *VALIDATORS)
_DATABASE = re.compile(r"[^/\\. \"$*<>:|?\x00-\x1f]{1,63}\Z")
_COLLECTION = re.compile(r"(?!system\.)[^$\x00-\x1f]{1,120}\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """``uri`` is what the driver is given. ``place`` names the database in errors, without a password.

    ``collections`` are those that may hold embedded messages.
    """

    uri: str
    place: str
    database: str
    collections: tuple[str, ...]


def parse(url: str, schema: str | None = None) -> Address:
    """The URL of either form. ``schema`` is the name of the database, where it is not that of the URL.

    Raises ConfigurationError.
    """
    name = name_of("database", url)
    if name not in {COLLECTION, EMBEDDED}:
        raise ConfigurationError("not the URL of a MongoDB", remedy="write mongodb://user@host:port/database")
    check_password(url)
    scheme, _, rest = url.partition("://")
    parts = urlsplit(f"mongodb://{rest}")
    database = schema or unquote(parts.path.strip("/"))
    hosts = parts.netloc.rpartition("@")[2]
    if not hosts:
        raise ConfigurationError("the URL names no host", remedy=f"write {scheme}://host:port/database")
    if not _DATABASE.match(database):
        what = f"{database!r} cannot be the name of a database" if database else "the URL names no database"
        raise ConfigurationError(what, remedy=f"write {scheme}://{hosts}/database")
    terms = parse_qsl(parts.query, keep_blank_values=True)
    _check(parts.netloc, hosts, [term.lower() for term, _ in terms])
    collections = _collections(name, [value for term, value in terms if term.lower() == "collections"])
    query = urlencode([(term, value) for term, value in terms if term.lower() != "collections"])
    srv = "+srv" if scheme.lower().endswith("+srv") else ""
    # Accounts are looked up in the database of the URL, or in the one that authSource names: both stay as they are.
    uri = f"mongodb{srv}://{parts.netloc}{parts.path}{'?' if query else ''}{query}"
    return Address(uri, f"MongoDB {hosts}/{database}", database, collections)


def _check(netloc: str, hosts: str, options: Iterable[str]) -> None:
    """What the driver would say at the first connection only. An option that it does not know is one of others'."""
    for option in options:
        if near := meant(option, _OPTIONS):
            raise ConfigurationError(f"the URL has an option {option!r}", remedy=f"did you mean {near!r}?")
    try:
        parse_uri(f"mongodb://{netloc}/")
    except (PyMongoError, ValueError) as error:
        raise ConfigurationError(f"{hosts!r} does not say where a MongoDB is: {error}", remedy=_WRITE) from error


def _collections(name: str, values: list[str]) -> tuple[str, ...]:
    if name == COLLECTION:
        if values:
            raise ConfigurationError(
                "collections= is for messages inside business documents", remedy=f"write {EMBEDDED}://..., or drop it"
            )
        return ()
    found = [part.strip() for value in values for part in value.split(",")]
    if not found or not all(_COLLECTION.match(part) for part in found):
        raise ConfigurationError(
            f"{','.join(found)!r} are not names of collections"
            if any(found)
            else "the URL does not say which collections hold embedded messages",
            remedy=f"write {EMBEDDED}://host/database?collections=orders,customers",
        )
    return tuple(dict.fromkeys(found))
