"""The ceiling of SQS and SNS: aiobotocore sends the same entries in requests of ten, as many at once as the plug-in.

Run by ``bench.relay --broker sqs://...``. A server on this machine takes most of the time; Amazon's are as quick as the
way there.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession

from bench import meter, workload

_REQUEST, _AT_ONCE = 10, 16
_CONTENT_TYPE = "application/cloudevents+json; charset=UTF-8"


def main(url: str, topic: str, rows: int, batch: int, size: int) -> dict[str, float]:
    """Messages per second and CPU per message."""
    return asyncio.run(_send(url, topic, [entry(url, row) for row in workload.rows(rows, topic=topic, size=size)]))


async def _send(url: str, topic: str, entries: list[dict[str, Any]]) -> dict[str, float]:
    for number, one in enumerate(entries):
        one["Id"] = str(number)
    requests = iter([entries[first : first + _REQUEST] for first in range(0, len(entries), _REQUEST)])
    async with _client(url) as client:
        send = await _sender(client, url, topic)
        started, cpu = time.perf_counter(), meter.cpu_s()
        await asyncio.gather(*[_work(send, requests) for _ in range(_AT_ONCE)])
        elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    return {"messages_per_s": len(entries) / elapsed, "cpu_us_per_message": cpu / len(entries) * 1e6}


Send = Callable[[list[dict[str, Any]]], Awaitable[Any]]


async def _work(send: Send, requests: Iterator[list[dict[str, Any]]]) -> None:
    for request in requests:
        answer = await send(request)
        assert not answer.get("Failed"), answer


async def _sender(client: Any, url: str, topic: str) -> Send:
    if url.startswith("sns"):
        made = await client.create_topic(Name=f"{topic}.fifo", Attributes={"FifoTopic": "true"})
        return lambda entries: client.publish_batch(TopicArn=made["TopicArn"], PublishBatchRequestEntries=entries)
    made = await client.create_queue(QueueName=f"{topic}.fifo", Attributes={"FifoQueue": "true"})
    return lambda entries: client.send_message_batch(QueueUrl=made["QueueUrl"], Entries=entries)


@asynccontextmanager
async def _client(url: str) -> Any:
    parts = urlsplit(url)
    endpoint = parse_qs(parts.query).get("endpoint", [None])[0]
    keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench"} if endpoint else {}
    config = AioConfig(max_pool_connections=_AT_ONCE, parameter_validation=False)
    made = AioSession().create_client(
        parts.scheme, region_name=parts.netloc, endpoint_url=endpoint, config=config, **keys
    )
    async with made as client:
        yield client


def entry(url: str, row: workload.Row) -> dict[str, Any]:
    """An entry as the plug-in makes it: one JSON object, and its content type as an attribute."""
    id_, _, key, version, kind, _, payload, content_type, moment = row
    event = {"specversion": "1.0", "id": id_, "source": "/bench", "type": kind, "time": str(moment)}
    event |= {"datacontenttype": content_type, "subject": key, "entityversion": str(version)}
    body = f'{json.dumps(event)[:-1]},"data":{payload.decode()}}}'
    return {
        "Message" if url.startswith("sns") else "MessageBody": body,
        "MessageAttributes": {"content-type": {"DataType": "String", "StringValue": _CONTENT_TYPE}},
        "MessageGroupId": str(key),
        "MessageDeduplicationId": str(id_),
    }


def forget(url: str, topic: str) -> None:
    """Remove what was published, with its place."""
    asyncio.run(_forget(url, topic))


async def _forget(url: str, topic: str) -> None:
    async with _client(url) as client:
        if url.startswith("sns"):
            made = await client.create_topic(Name=f"{topic}.fifo", Attributes={"FifoTopic": "true"})
            await client.delete_topic(TopicArn=made["TopicArn"])
        else:
            made = await client.create_queue(QueueName=f"{topic}.fifo", Attributes={"FifoQueue": "true"})
            await client.delete_queue(QueueUrl=made["QueueUrl"])


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
