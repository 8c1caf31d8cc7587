"""The ceiling of RabbitMQ: the same client library sends the same messages, encoded beforehand, and awaits confirms.

Run by ``bench.relay --broker amqp://...``. As many are under way at once as the relay has.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import aiormq
from aiormq import spec
from aiormq.abc import ChannelFrame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from bench import meter, workload
from fencepost.brokers.rabbitmq.handoff import WINDOW_MESSAGES
from fencepost.brokers.rabbitmq.wire import Window


def main(url: str, topic: str, rows: int, batch: int, size: int) -> dict[str, float]:
    """Messages per second and CPU per message."""
    return asyncio.run(_publish(url, topic, rows, min(batch, WINDOW_MESSAGES), size))


async def _publish(url: str, topic: str, rows: int, window: int, size: int) -> dict[str, float]:
    connection = await aiormq.connect(url)
    channel = await connection.channel()
    await channel.queue_declare(topic, durable=True, arguments={"x-queue-type": "quorum"})
    work = [(row[0], frames(row, topic, channel.number)) for row in workload.rows(rows, topic=topic, size=size)]
    started, cpu = time.perf_counter(), meter.cpu_s()
    for first in range(0, rows, window):
        part = work[first : first + window]
        sent = Window(channel, [id_ for id_, _ in part])
        await sent.send(b"".join([data for _, data in part]))
        await sent.done
        sent.end()
    elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    await connection.close()
    return {"messages_per_s": rows / elapsed, "cpu_us_per_message": cpu / rows * 1e6}


def frames(row: workload.Row, queue: str, channel: int) -> bytes:
    """A message as the library encodes it: CloudEvents in binary mode."""
    id_, _, key, version, kind, _, payload, content_type, moment = row
    values: dict[str, Any] = {
        "specversion": "1.0",
        "source": "/bench",
        "type": kind,
        "id": id_,
        "time": str(moment),
        "subject": key,
        "entityversion": str(version),
    }
    headers = {f"cloudEvents:{name}": value for name, value in values.items()}
    properties = spec.Basic.Properties(content_type=content_type, headers=headers, delivery_mode=2, message_id=id_)
    publish = spec.Basic.Publish(exchange="", routing_key=queue, mandatory=True)
    head = ContentHeader(properties=properties, body_size=len(payload))
    return ChannelFrame.marshall(channel, [publish, head, ContentBody(payload)]).payload


def forget(url: str, topic: str) -> None:
    """Remove what was published."""

    async def delete() -> None:
        connection = await aiormq.connect(url)
        await (await connection.channel()).queue_delete(topic)
        await connection.close()

    asyncio.run(delete())


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
