"""docs/dynamodb.md: its example works as it stands, and the rights that it names are those of the requests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fencepost.aws.address import address_of
from fencepost.aws.client import Client
from fencepost.clock import SYSTEM_CLOCK
from fencepost.databases.dynamodb import DynamoSource
from fencepost.ports import DatabaseOptions, Lane
from tests.docs.pages import TREE, the_block
from tests.docs.processes import environment

PAGE = TREE / "docs" / "dynamodb.md"


@pytest.fixture
def names(fresh_name: str) -> str:
    """What takes the place of "shop." in the page."""
    return f"{fresh_name}."


def called(command: list[str], folder: Path, env: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment(env), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def test_the_example(dynamodb_url: str, names: str, tmp_path: Path) -> None:
    address = address_of(dynamodb_url)
    config = the_block(PAGE, "dynamodb-config").text.replace("shop.", f"{names}?endpoint={address.endpoint}")
    (tmp_path / "fencepost.toml").write_text(config)
    (tmp_path / "shop.py").write_text(the_block(PAGE, "python", "dynamodb").text.replace("shop.", names))
    env = {
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": address.region,
        "AWS_ENDPOINT_URL_DYNAMODB": str(address.endpoint),
    }
    client = Client(address, 10.0, SYSTEM_CLOCK)
    await client.open()
    fencepost = [sys.executable, "-m", "fencepost"]
    try:
        tables = sorted(called([*fencepost, "schema", "apply", "--json"], tmp_path, env).split('"')[3::2])
        assert tables == [f"{names}fencepost_lease", f"{names}fencepost_outbox"]
        await client.call(
            "create_table",
            TableName=f"{names}orders",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        called([sys.executable, "shop.py"], tmp_path, env)
        session = await DynamoSource(DatabaseOptions(url=f"{dynamodb_url}".replace("/?", f"/{names}?"))).connect()
        (found,) = await session.pending(Lane("orders"), 10)
        await session.close()
        assert (found.topic, found.key, found.version, found.payload) == (
            "orders",
            "order-1",
            1,
            b'{"id":"order-1","cents":1250}',
        )
    finally:
        for table in ("orders", "fencepost_outbox", "fencepost_lease"):
            await client.call("delete_table", TableName=f"{names}{table}")
        await client.close()


def requests_of(*files: str) -> set[str]:
    """The operations that some files ask for, as rights are named; those of transactions by their parts."""
    text = "".join((TREE / "src/fencepost" / file).read_text() for file in files)
    parts = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "Get": "GetItem"}
    found = {parts[name] for name in re.findall(r'"(Put|Update|Delete|Get)":', text)}
    single = re.findall(r'"((?:get|put|update|delete|batch|create|describe)_[a-z_]+|query|scan)"', text)
    return found | {"".join(word.capitalize() for word in name.split("_")) for name in single}


def test_the_rights_are_those_of_the_requests() -> None:
    """What a file asks for is in the list, and nothing else is."""
    rights: dict[str, dict[str, Any]] = json.loads(the_block(PAGE, "dynamodb-rights").text)
    databases = "databases/dynamodb/"
    relay = requests_of(*(databases + f"{name}.py" for name in ("source", "place", "reading", "chain", "changes")))
    relay |= requests_of(databases + "delays.py", databases + "session.py")
    named = {right.partition(":")[2] for right in rights["relay"]["shop.fencepost_outbox"]}
    assert {name.replace("Ttl", "TTL") for name in relay} == named
    lease = {right.partition(":")[2] for right in rights["relay"]["shop.fencepost_lease"]}
    assert requests_of("elections/dynamodb.py") == lease
    application = {right.partition(":")[2] for right in rights["application"]["shop.fencepost_outbox"]}
    assert requests_of(databases + "transaction.py", databases + "entity.py") | {"GetItem"} == application
