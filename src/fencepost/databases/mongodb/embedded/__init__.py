"""The form without a collection of its own: messages wait inside the business documents (``mongodb-embedded://``)."""

from __future__ import annotations

from fencepost.databases.mongodb.embedded.schema import EmbeddedSchema
from fencepost.databases.mongodb.embedded.source import EmbeddedSource
from fencepost.ports import DatabaseOptions

__all__ = ["EmbeddedSchema", "EmbeddedSource", "schema", "source"]


def source(options: DatabaseOptions) -> EmbeddedSource:
    """The plug-in's factory for sources."""
    return EmbeddedSource(options)


def schema(options: DatabaseOptions) -> EmbeddedSchema:
    """The plug-in's factory for schemas."""
    return EmbeddedSchema(options)
