"""The ceiling of MQTT: the same client library sends the same messages with QoS 1, as many at once as a server allows.

Run by ``bench.relay --broker mqtt://...``. A session of a subscriber who is away takes the messages, since one that
nobody is subscribed to does not count as published; the server keeps them in memory until it is emptied.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bench import meter, workload
from fencepost.brokers.mqtt.address import Address

_IN_FLIGHT = 20
"""What Mosquitto allows unless it is told otherwise."""
_SESSION_S = 120


def main(url: str, topic: str, rows: int, batch: int, size: int) -> dict[str, float]:
    """Messages per second and CPU per message."""
    forget(url, topic)
    client = _connected(url)
    work = iter([(row[6], properties(row)) for row in workload.rows(rows, topic=topic, size=size)])
    answered = 0

    def count(*_: object) -> None:
        nonlocal answered
        answered += 1
        _send(client, topic, work, 1)

    client.on_publish = count
    started, cpu = time.perf_counter(), meter.cpu_s()
    _send(client, topic, work, _IN_FLIGHT)
    while answered < rows:
        client.loop()
    elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    client.disconnect()
    return {"messages_per_s": rows / elapsed, "cpu_us_per_message": cpu / rows * 1e6}


def _connected(url: str, client_id: str = "", session_s: int = 0) -> Client:
    address = Address.of(url)
    client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTv5)
    session: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    session.SessionExpiryInterval = session_s
    if address.user:
        client.username_pw_set(address.user, address.password)
    client.connect(*address.servers[0], clean_start=True, properties=session)
    while not client.is_connected():
        client.loop()
    return client


def _send(client: Client, topic: str, work: Iterator[tuple[bytes, Properties]], count: int) -> None:
    for _, (payload, own) in zip(range(count), work, strict=False):
        client.publish(topic, payload, 1, properties=own)


def properties(row: workload.Row) -> Properties:
    """The attributes of CloudEvents, as the library takes them."""
    id_, _, key, version, kind, _, _, content_type, moment = row
    found: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    found.ContentType = content_type
    values = {"specversion": "1.0", "source": "/bench", "type": kind, "id": id_, "time": moment, "subject": key}
    found.UserProperty = [(name, str(value)) for name, value in (values | {"entityversion": version}).items()]
    given: Properties = found
    return given


def forget(url: str, topic: str) -> None:
    """Empty the session that takes the messages; it is there for the next ones."""
    client, answers = _connected(url, f"bench-{topic}", session_s=_SESSION_S), list[object]()
    client.on_subscribe = lambda *given: answers.append(given)
    client.subscribe(topic, 1)
    while not answers:
        client.loop()
    client.disconnect()


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
