"""The requests of SNS."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from fencepost.aws.address import Sns
from fencepost.aws.client import Client
from fencepost.aws.faults import code_of
from fencepost.aws.publishing.encode import Entry
from fencepost.aws.publishing.faults import plain_code
from fencepost.brokers.sns.settings import Settings
from fencepost.errors import SchemaMissing

_PARTITIONS = {"cn-": "aws-cn", "us-gov-": "aws-us-gov", "us-iso-": "aws-iso", "us-isob-": "aws-iso-b"}


class Topics:
    """``fencepost.aws.publishing.places.Service`` says what each call promises. The address of a topic is its ARN."""

    def __init__(self, server: Sns, settings: Settings) -> None:
        self._fifo = settings.fifo
        self._begin = ""
        """Of each ARN, where the account is known; otherwise SNS tells the ARN when a topic is made or listed."""
        if settings.account:
            partition = next((p for begin, p in _PARTITIONS.items() if server.region.startswith(begin)), "aws")
            self._begin = f"arn:{partition}:sns:{server.region}:{settings.account}:"
        self._create = {"FifoTopic": "true"} if settings.fifo else {}

    async def probe(self, client: Client) -> None:
        await client.ask("list_topics")

    async def find(self, client: Client, name: str, *, create: bool) -> str:
        if self._begin:
            return await self._looked_at(client, self._begin + name)
        if not create:
            return await self._listed(client, name)
        answer = await client.ask("create_topic", Name=name, Attributes=self._create)  # one that is there stays
        return str(answer["TopicArn"])

    async def _looked_at(self, client: Client, address: str) -> str:
        try:
            await client.ask("get_topic_attributes", TopicArn=address)
        except ClientError as error:
            # Who may only publish may not look: then publishing tells whether it is there.
            if plain_code(code_of(error)) != "authorizationerror":
                raise
        return address

    async def _listed(self, client: Client, name: str) -> str:
        page: dict[str, str] = {}
        while True:
            answer = await client.ask("list_topics", **page)
            for topic in answer.get("Topics") or ():
                if str(topic["TopicArn"]).rpartition(":")[2] == name:
                    return str(topic["TopicArn"])
            if not answer.get("NextToken"):
                raise SchemaMissing(f"{client.place} has no topic {name!r}", remedy="create it, or set create = true")
            page = {"NextToken": answer["NextToken"]}

    async def send(self, client: Client, address: str, entries: list[Entry]) -> Any:
        given = [self._entry(number, entry) for number, entry in enumerate(entries)]
        return await client.ask("publish_batch", TopicArn=address, PublishBatchRequestEntries=given)

    def _entry(self, number: int, entry: Entry) -> dict[str, Any]:
        attributes = {n: {"DataType": "String", "StringValue": v} for n, v in entry.attributes.items()}
        given: dict[str, Any] = {"Id": str(number), "Message": entry.body, "MessageAttributes": attributes}
        if self._fifo:
            given |= {"MessageGroupId": entry.group, "MessageDeduplicationId": entry.id}
        return given
