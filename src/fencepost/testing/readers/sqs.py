"""A reader of SQS. It takes messages from the queue of a topic as a consumer does, and keeps what it has read."""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64decode
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.session
from botocore.exceptions import ClientError

from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen
from fencepost.testing.readers.cloudevents import seen

_MANY = 10
_DATA = b',"data":'


def client(service: str, url: str) -> Any:
    """A client of a service in the region, or at the endpoint, that a URL names."""
    parts = urlsplit(url)
    endpoint = parse_qs(parts.query).get("endpoint", [None])[0]
    keys = {}
    if endpoint and "AWS_ACCESS_KEY_ID" not in os.environ:
        keys = {"aws_access_key_id": "reader", "aws_secret_access_key": "reader"}
    return _session().create_client(service, region_name=parts.netloc, endpoint_url=endpoint, **keys)


@cache
def _session() -> Any:
    """One for all: what it has read of the services is much."""
    return botocore.session.get_session()


def name_of(topic: str, settings: Mapping[str, object]) -> str:
    """The name that is expected of a topic's queue."""
    return topic.replace(".", "--") + (".fifo" if settings.get("fifo", True) else "")


class SqsReader:
    """``fencepost.testing.harness.Reader`` says what each call promises."""

    def __init__(self, options: BrokerOptions) -> None:
        self._settings = options.settings
        self._client = client("sqs", options.url)
        self._wait_s = 0 if "endpoint=" in options.url else 2
        self._seen: dict[str, list[Seen]] = {}

    async def read(self, topic: str) -> Sequence[Seen]:
        found = self._seen.setdefault(topic, [])
        found += await asyncio.to_thread(self._take, topic)
        return list(found)

    def unpublishable(self, message: Stored) -> Stored:
        return message._replace(payload=bytes(1_100_000))

    async def close(self) -> None:
        """The queues that were read are removed."""
        await asyncio.to_thread(self._remove)

    def _take(self, topic: str) -> list[Seen]:
        queue = self._queue(topic)
        if queue is None:
            return []
        return [seen_in(topic, message) for message in taken(self._client, queue, self._wait_s)]

    def _queue(self, topic: str) -> str | None:
        try:
            return str(self._client.get_queue_url(QueueName=name_of(topic, self._settings))["QueueUrl"])
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 400:
                raise
            return None

    def _remove(self) -> None:
        for topic in self._seen:
            if (queue := self._queue(topic)) is not None:
                self._client.delete_queue(QueueUrl=queue)
        self._client.close()


def taken(sqs: Any, queue: str, wait_s: int) -> list[dict[str, Any]]:
    """Everything that is in a queue; it is deleted there."""
    found: list[dict[str, Any]] = []
    ask = {"MaxNumberOfMessages": _MANY, "MessageAttributeNames": ["All"], "WaitTimeSeconds": wait_s}
    while page := sqs.receive_message(QueueUrl=queue, AttributeNames=["All"], **ask).get("Messages", []):
        done = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(page)]
        answer = sqs.delete_message_batch(QueueUrl=queue, Entries=done)
        assert not answer.get("Failed"), answer
        found += page
    return found


def seen_in(topic: str, message: Mapping[str, Any]) -> Seen:
    """A message of a queue as the rules compare it."""
    attributes = {name: value["StringValue"] for name, value in message.get("MessageAttributes", {}).items()}
    if len(attributes) > _MANY:
        raise AssertionError(f"{len(attributes)} attributes on topic {topic!r}: SNS would not hand them on")
    headers = json.loads(attributes.pop("fencepost-headers", "{}"))
    assert not headers.keys() & attributes.keys(), "a header came twice"
    headers |= attributes
    gone = headers.pop("fencepost-tombstone", "") == "true"
    payload = None if gone else _body(headers.pop("fencepost-body", ""), message["Body"])
    if payload is not None and headers.get("content-type", "").startswith("application/cloudevents+json"):
        del headers["content-type"]
        return _structured(topic, payload, headers)
    return seen(topic, payload, headers.items(), prefix="ce-")


def _body(kind: str, text: str) -> bytes:
    if kind == "empty":
        return b""
    return b64decode(text, validate=True) if kind == "base64" else text.encode()


def _structured(topic: str, body: bytes, headers: Mapping[str, str]) -> Seen:
    event = json.loads(body, parse_int=str, parse_float=str)
    attributes = {name: value for name, value in event.items() if name not in {"data", "data_base64"}}
    if "data" in event:  # as it was added: the rest, but for the brace
        return Seen(topic, body[body.index(_DATA) + len(_DATA) : -1], attributes, headers)
    return Seen(topic, b64decode(event["data_base64"]), attributes, headers)


def reader(options: BrokerOptions) -> SqsReader:
    """The reader of one region, or one server."""
    return SqsReader(options)
