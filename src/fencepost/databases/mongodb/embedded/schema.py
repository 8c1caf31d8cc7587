"""The indexes that find business documents with messages."""

from __future__ import annotations

from fencepost.databases.mongodb.connection import Outbox
from fencepost.databases.mongodb.deployment import check_writable
from fencepost.databases.mongodb.embedded.fields import Field
from fencepost.databases.mongodb.schema import MongoSchema
from fencepost.ports import DatabaseOptions


class EmbeddedSchema(MongoSchema):
    """Indexes only: the documents are the application's."""

    def __init__(self, options: DatabaseOptions) -> None:
        outbox = Outbox(options)
        super().__init__(outbox, Field(options.prefix).needed(outbox.address.collections), check_writable)
