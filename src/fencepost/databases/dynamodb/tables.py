"""What is kept where: one table for the outbox, one for leases, and the keys of everything in them.

The table of the outbox has a partition key ``pk`` and a sort key ``sk``, both text:

==================  ==========  ======================================================================
pk                  sk          what it is
==================  ==========  ======================================================================
pending#BUCKET      position    a message that may be published
delayed#BUCKET      position    one that may not be published yet; ``due`` puts it into the index ``due``
parked              position    one that was set aside
entity#TOPIC#KEY    entity      the version and the position of the entity's last message
settings            settings    how many buckets there are
==================  ==========  ======================================================================

A bucket holds a contiguous range of slots, so all messages of a key stand in one partition, in the order of their
positions. A partition can be read consistently; an index of messages across partitions could not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.databases.dynamodb.position import slot_in
from fencepost.message import SLOTS

Attributes = dict[str, dict[str, Any]]
"""An item, or its key, as the service writes it: {"id": {"S": "..."}, "version": {"N": "1"}}."""

OUTBOX = "outbox"
LEASE = "lease"
DUE = "due"
"""The index of delayed messages by the time when they are due, for each bucket."""

PARKED = "parked"
SETTINGS: Attributes = {"pk": {"S": "settings"}, "sk": {"S": "settings"}}


def bucket_of(slot: int, buckets: int) -> int:
    """The bucket of a slot."""
    return slot * buckets // SLOTS


def pending(bucket: int) -> str:
    """The partition of a bucket's pending messages."""
    return f"pending#{bucket}"


def delayed(bucket: int) -> str:
    """The partition of a bucket's delayed messages."""
    return f"delayed#{bucket}"


def key(pk: str, sk: str) -> Attributes:
    """The key of an item."""
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def pending_key(position: str, buckets: int) -> Attributes:
    """Where a message with this position stands while it is pending."""
    return key(pending(bucket_of(slot_in(position), buckets)), position)


def delayed_key(position: str, buckets: int) -> Attributes:
    """Where a message with this position stands while it is delayed."""
    return key(delayed(bucket_of(slot_in(position), buckets)), position)


def entity_key(topic: str, entity: str) -> Attributes:
    """Where an entity's last version stands. No topic has a # in it."""
    return key(f"entity#{topic}#{entity}", "entity")


def creations(outbox: str, lease: str) -> Sequence[dict[str, Any]]:
    """The requests that create the tables."""
    keys = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
    by_due = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "due", "KeyType": "RANGE"}]
    return (
        {
            "TableName": outbox,
            "AttributeDefinitions": [
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "S"},
                {"AttributeName": "due", "AttributeType": "N"},
            ],
            "KeySchema": keys,
            "GlobalSecondaryIndexes": [
                {"IndexName": DUE, "KeySchema": by_due, "Projection": {"ProjectionType": "KEYS_ONLY"}}
            ],
            "BillingMode": "PAY_PER_REQUEST",
        },
        {
            "TableName": lease,
            "AttributeDefinitions": [{"AttributeName": "name", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "name", "KeyType": "HASH"}],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )


def settings_put(outbox: str, buckets: int) -> dict[str, Any]:
    """The request that writes how many buckets there are, once and for all."""
    return {
        "TableName": outbox,
        "Item": {**SETTINGS, "buckets": {"N": str(buckets)}},
        "ConditionExpression": "attribute_not_exists(pk)",
    }
