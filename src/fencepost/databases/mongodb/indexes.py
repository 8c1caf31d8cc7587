"""Collections and indexes: which are missing, how they are made, and how to say it to somebody who may make them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import CollectionInvalid

Database = AsyncDatabase[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Index:
    """An index by name. ``sparse``: documents without the field are not in it."""

    name: str
    keys: Sequence[tuple[str, int]]
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class Needed:
    """A collection and what must be there. ``own``: it is the outbox's, not one of the business."""

    collection: str
    indexes: Sequence[Index] = field(default=())
    own: bool = True

    def statements(self) -> list[str]:
        """What makes it, for mongosh."""
        name = json.dumps(self.collection)
        made = [f"db.createCollection({name})"] if self.own else []
        return made + [f"db.getCollection({name}).createIndex({_keys(i)}, {_options(i)})" for i in self.indexes]


async def missing(database: Database, needed: Sequence[Needed]) -> list[str]:
    """The names of what is not there: "collection", or "collection.index"."""
    there = set(await database.list_collection_names())
    found: list[str] = []
    for one in needed:
        if one.own and one.collection not in there:
            found.append(one.collection)
            continue
        known = await _indexes(database, one.collection) if one.collection in there else {}
        found += [f"{one.collection}.{index.name}" for index in one.indexes if index.name not in known]
    return found


async def apply(database: Database, needed: Sequence[Needed]) -> list[str]:
    """Make what is missing, and nothing else; the names of it."""
    absent = await missing(database, needed)
    for one in needed:
        lacks_collection = one.collection in absent
        if lacks_collection:
            with suppress(CollectionInvalid):  # somebody else was quicker
                await database.create_collection(one.collection)
        for index in one.indexes:
            if lacks_collection or f"{one.collection}.{index.name}" in absent:
                await database[one.collection].create_index(list(index.keys), name=index.name, sparse=index.sparse)
    return absent


async def foreign_collations(database: Database, needed: Sequence[Needed]) -> list[str]:
    """Collections whose texts are compared by other rules than byte by byte."""
    names = {one.collection for one in needed}
    found = []
    async for each in await database.list_collections():
        locale = each.get("options", {}).get("collation", {}).get("locale", "simple")
        if each["name"] in names and locale != "simple":
            found.append(each["name"])
    return sorted(found)


async def _indexes(database: Database, collection: str) -> Mapping[str, Any]:
    return {each["name"]: each async for each in await database[collection].list_indexes()}


def _keys(index: Index) -> str:
    return json.dumps(dict(index.keys))


def _options(index: Index) -> str:
    return json.dumps({"name": index.name} | ({"sparse": True} if index.sparse else {}))
