"""The requests of SQS."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from fencepost.aws.client import Client
from fencepost.aws.faults import code_of
from fencepost.aws.publishing.encode import Entry
from fencepost.aws.publishing.faults import plain_code
from fencepost.brokers.sqs.settings import Settings

_MISSING = {"queuedoesnotexist", "nonexistentqueue"}
_PROBE = "fencepost-probe"
"""The name of a queue that need not exist."""


class Queues:
    """``fencepost.aws.publishing.places.Service`` says what each call promises. The address of a queue is its URL."""

    def __init__(self, settings: Settings) -> None:
        self._fifo = settings.fifo
        self._owner = {"QueueOwnerAWSAccountId": settings.account} if settings.account else {}
        self._create = {"FifoQueue": "true"} if settings.fifo else {}

    async def probe(self, client: Client) -> None:
        await client.ask("get_queue_url", QueueName=_PROBE)

    async def find(self, client: Client, name: str, *, create: bool) -> str:
        try:
            answer = await client.ask("get_queue_url", QueueName=name, **self._owner)
        except ClientError as error:
            if not create or self._owner or plain_code(code_of(error)) not in _MISSING:
                raise
            answer = await client.ask("create_queue", QueueName=name, Attributes=self._create)
        return str(answer["QueueUrl"])

    async def send(self, client: Client, address: str, entries: list[Entry]) -> Any:
        given = [self._entry(number, entry) for number, entry in enumerate(entries)]
        return await client.ask("send_message_batch", QueueUrl=address, Entries=given)

    def _entry(self, number: int, entry: Entry) -> dict[str, Any]:
        attributes = {n: {"DataType": "String", "StringValue": v} for n, v in entry.attributes.items()}
        given: dict[str, Any] = {"Id": str(number), "MessageBody": entry.body, "MessageAttributes": attributes}
        if self._fifo:
            given |= {"MessageGroupId": entry.group, "MessageDeduplicationId": entry.id}
        return given
