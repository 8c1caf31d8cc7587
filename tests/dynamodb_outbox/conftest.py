"""An outbox in DynamoDB for one test, with tables of its own."""

import os
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from fencepost.aws.address import Address, address_of
from fencepost.aws.client import Client
from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.dynamodb import AsyncDynamoOutbox, DynamoSchema, DynamoSource
from fencepost.errors import SchemaMissing
from fencepost.ports import DatabaseOptions
from tests.dynamodb_outbox.shop import Shop


@pytest.fixture
def blocking(dynamodb_url: str) -> Callable[[], Any]:
    """Makes clients of boto3."""
    import boto3

    address = address_of(dynamodb_url)
    keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
    return lambda: boto3.client("dynamodb", region_name=address.region, endpoint_url=address.endpoint, **keys)


@pytest_asyncio.fixture
async def shop(dynamodb_url: str) -> AsyncIterator[Shop]:
    """An empty outbox with one bucket, and a table of orders."""
    prefix = f"t{os.getpid():x}_{uuid.uuid4().hex[:10]}_"
    options = DatabaseOptions(url=f"{dynamodb_url}&buckets=1", prefix=prefix, timeout_s=10.0)
    address: Address = address_of(options.url)
    client = Client(address, 10.0, SYSTEM_CLOCK)
    await client.open()
    made = Shop(options, client, DynamoSource(options), AsyncDynamoOutbox(prefix=prefix))
    await DynamoSchema(options).apply()
    await made.create_orders()
    try:
        yield made
    finally:
        await made.close()
        for name in ("outbox", "lease", "orders"):
            try:
                await client.call("delete_table", TableName=f"{prefix}{name}")
            except SchemaMissing:
                continue
        await client.close()
