"""MongoDB as an outbox: a collection of its own (``mongodb://``), or inside business documents (``mongodb-embedded://``).

Applications add messages with ``MongoOutbox`` or ``AsyncMongoOutbox`` in a transaction, or let ``EmbeddedOutbox`` write
them into the business document itself, which needs no transaction.
"""

from __future__ import annotations

from fencepost.databases.mongodb.adding import AsyncMongoOutbox, MongoOutbox
from fencepost.databases.mongodb.collection.schema import CollectionSchema
from fencepost.databases.mongodb.collection.source import CollectionSource
from fencepost.databases.mongodb.embedded.document import DOCUMENT, Document
from fencepost.databases.mongodb.embedded.fields import Field
from fencepost.databases.mongodb.embedding import EmbeddedOutbox
from fencepost.databases.mongodb.records import stored
from fencepost.mongo.address import Address, parse
from fencepost.ports import DatabaseOptions

__all__ = [
    "DOCUMENT",
    "Address",
    "AsyncMongoOutbox",
    "CollectionSchema",
    "CollectionSource",
    "Document",
    "EmbeddedOutbox",
    "Field",
    "MongoOutbox",
    "parse",
    "schema",
    "source",
    "stored",
]


def source(options: DatabaseOptions) -> CollectionSource:
    """The plug-in's factory for sources."""
    return CollectionSource(options)


def schema(options: DatabaseOptions) -> CollectionSchema:
    """The plug-in's factory for schemas."""
    return CollectionSchema(options)
