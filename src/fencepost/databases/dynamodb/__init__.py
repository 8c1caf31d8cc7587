"""DynamoDB as an outbox: the application's side on whatever client it has, the relay's on aiobotocore.

An application that has its own client needs no aiobotocore, whose versions would bind those of its boto3.
"""

from __future__ import annotations

from fencepost.databases.dynamodb.outbox import AsyncDynamoOutbox, DynamoOutbox
from fencepost.databases.dynamodb.transaction import AsyncDynamoTransaction, DynamoTransaction
from fencepost.errors import MissingExtra
from fencepost.plugins import as_installed
from fencepost.ports import DatabaseOptions

_missing = ""
try:
    from fencepost.databases.dynamodb.schema import DynamoSchema
    from fencepost.databases.dynamodb.source import DynamoSource
except ModuleNotFoundError as error:
    _missing = error.name or ""
    if _missing.startswith("fencepost"):
        raise

__all__ = [
    "AsyncDynamoOutbox",
    "AsyncDynamoTransaction",
    "DynamoOutbox",
    "DynamoSchema",
    "DynamoSource",
    "DynamoTransaction",
    "schema",
    "source",
]


def source(options: DatabaseOptions) -> DynamoSource:
    """The plug-in's factory for sources. Raises MissingExtra without the library of the relay's side."""
    _check_library()
    return DynamoSource(options)


def schema(options: DatabaseOptions) -> DynamoSchema:
    """The plug-in's factory for schemas. Raises MissingExtra without the library of the relay's side."""
    _check_library()
    return DynamoSchema(options)


def _check_library() -> None:
    if _missing:
        raise MissingExtra(
            f"the database 'dynamodb' needs the library {_missing!r}, which is not installed",
            remedy=as_installed('pip install "fencepost[dynamodb]"'),
        )
