"""The tables of an outbox in DynamoDB."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from fencepost.aws.client import Client
from fencepost.aws.faults import ERRORS, code_of, fault_of
from fencepost.databases.dynamodb.place import Place
from fencepost.databases.dynamodb.tables import creations, settings_put
from fencepost.errors import DeadlineExceeded, SchemaMissing
from fencepost.ports import DatabaseOptions

_LOOK_EVERY_S = 0.5
_READY_S = 300.0


class DynamoSchema:
    """``fencepost.ports.Schema`` says what each call promises. The statements are commands of Amazon's program."""

    def __init__(self, options: DatabaseOptions) -> None:
        self._place = Place(options)
        self._creations = creations(self._place.outbox, self._place.lease)
        self._settings = settings_put(self._place.outbox, self._place.address.buckets)

    def statements(self) -> Sequence[str]:
        """A command for each table, one that waits for the outbox, one that writes how many buckets it has."""
        name = self._place.outbox
        return [
            *(self._command("create-table", request) for request in self._creations),
            f"aws dynamodb wait table-exists {self._where()} --table-name {name}",
            self._command("put-item", self._settings),
        ]

    async def apply(self) -> Sequence[str]:
        async with self._place.looking() as client:
            created = [r["TableName"] for r in self._creations if await self._create(client, r)]
            for request in self._creations:
                await self._ready(client, request["TableName"])
            await self._once(client, "put_item", self._settings, "ConditionalCheckFailedException")
            return created

    async def missing(self) -> Sequence[str]:
        async with self._place.looking() as client:
            return await self._place.missing(client)

    async def _create(self, client: Client, request: dict[str, Any]) -> bool:
        table = await self._place.described(client, request["TableName"])
        if table is not None:
            if table["TableName"] == self._place.outbox:
                self._place.check_keys(table)
            return False
        return await self._once(client, "create_table", request, "ResourceInUseException")

    async def _once(self, client: Client, operation: str, request: dict[str, Any], done_before: str) -> bool:
        """Do what can be done once; False where it was done before."""
        try:
            await client.ask(operation, **request)
        except ERRORS as error:
            if code_of(error) == done_before:
                return False
            raise fault_of(error, self._place.name) from error
        return True

    async def _ready(self, client: Client, name: str) -> None:
        clock = self._place.options.clock
        end_s = clock.monotonic() + _READY_S
        while True:
            table = await self._place.described(client, name)
            if table is None:
                raise SchemaMissing(f"{self._place.name}: the table {name} went away while it was made")
            if table["TableStatus"] == "ACTIVE":
                return
            if clock.monotonic() > end_s:
                raise DeadlineExceeded(f"{self._place.name}: the table {name} is not ready after {_READY_S:g} s")
            await clock.sleep(_LOOK_EVERY_S)

    def _command(self, name: str, request: dict[str, Any]) -> str:
        body = shlex.quote(json.dumps(request))
        return f"aws dynamodb {name} {self._where()} --cli-input-json {body}"

    def _where(self) -> str:
        address = self._place.address
        endpoint = f" --endpoint-url {shlex.quote(address.endpoint)}" if address.endpoint else ""
        return f"--region {address.region}{endpoint}"
