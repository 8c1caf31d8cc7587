"""Three nodes of Kafka, each of them broker and controller, and topics that are on each of them.

Kafka itself is not installed by us: its jars are found by KAFKA_HOME, or beside its scripts on the search path.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import shutil
import struct
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from fencepost.clock import Clock
from fencepost.demo.ports import HOST, free_ports
from fencepost.demo.processes import last_line, start
from fencepost.errors import MissingExtra, Unavailable
from fencepost.testing.torture.cluster import NODES, Node, Nodes

_ANSWER_S = 5.0
_LENGTH = 4
_VERSIONS = struct.pack("!hhih", 18, 0, 1, -1)
"""A request for the versions that a node speaks: its key, version and number, and no client's name."""
_SCRIPTS = ("kafka-server-start.sh", "kafka-server-start")
_JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_LOGGING = "-Dorg.apache.logging.log4j.level=WARN"
# A dead node is given up after 3 s, not 9: its successors are sooner there, and the next fault may come.
_SETTINGS = """\
process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{client},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{client}
log.dirs={data}
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
"""

_LOGGER = logging.getLogger("fencepost.torture.kafka")  # the library writes to standard error otherwise
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False


async def kafka_nodes(folder: Path, clock: Clock) -> Nodes:
    """The nodes, not started yet; data, settings and logs are in ``folder``. Raises MissingExtra, Unavailable."""
    java = _java()
    ports = free_ports(2 * NODES, clock)
    clients, controllers = ports[:NODES], ports[NODES:]
    voters = ",".join(f"{number}@{HOST}:{port}" for number, port in enumerate(controllers, 1))
    nodes, files = [], []
    for number, (client, controller) in enumerate(zip(clients, controllers, strict=True), 1):
        name = f"node-{number}"
        places = {"host": HOST, "client": client, "controller": controller, "data": folder / name}
        file = folder / f"{name}.properties"
        file.write_text(_SETTINGS.format(number=number, voters=voters, **places), encoding="utf-8")
        # Its compression libraries unpack themselves into the temporary folder, and a killed one leaves them there.
        command = [*java, f"-Djava.io.tmpdir={folder}", "kafka.Kafka", str(file)]
        nodes.append(Node(name, command, file.with_suffix(".log")))
        files.append(file)
    await _format(java, files, clock)
    servers = ",".join(f"{HOST}:{port}" for port in clients)
    options: dict[str, Any] = {"bootstrap.servers": servers, "socket.timeout.ms": 5000, "logger": _LOGGER}
    admin = AdminClient(options)
    whole = partial(_is_whole, admin, clients)
    return Nodes(f"kafka://{servers}", {"replication_factor": NODES}, nodes, whole)


async def _is_whole(admin: AdminClient, ports: Sequence[int]) -> bool:
    """Each node is asked first: for a while the others do not know of one that has just gone."""
    answers = await asyncio.gather(*map(_answers, ports))
    return all(answers) and await asyncio.to_thread(_is_complete, admin)


async def _answers(port: int) -> bool:
    """True where a node serves requests, which it does once it has joined the cluster."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(struct.pack("!i", len(_VERSIONS)) + _VERSIONS)
                return len(await reader.readexactly(_LENGTH)) == _LENGTH
            finally:
                writer.close()
    except (OSError, EOFError, TimeoutError):
        return False


def _is_complete(admin: AdminClient) -> bool:
    """True where every node is there and no partition lacks one of its copies."""
    try:
        found = admin.list_topics(timeout=_ANSWER_S)
    except KafkaException:
        return False
    partitions = [partition for topic in found.topics.values() for partition in topic.partitions.values()]
    return len(found.brokers) == NODES and all(len(p.isrs) == len(p.replicas) and p.leader >= 0 for p in partitions)


async def _format(java: Sequence[str], files: Sequence[Path], clock: Clock) -> None:
    """Make the data folders, which have the cluster's id."""
    identity = base64.urlsafe_b64encode(uuid.UUID(clock.new_id()).bytes).decode().rstrip("=")
    made = [
        _done([*java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(file)], file.with_suffix(".log"))
        for file in files
    ]
    await asyncio.gather(*made)


async def _done(command: Sequence[str], log: Path) -> None:
    process = await start(command, log)
    if await process.wait():
        raise Unavailable(f"Kafka's data folder cannot be made: {last_line(log)}")


def _java() -> list[str]:
    """The beginning of a command that runs a class of Kafka's."""
    found = shutil.which("java")
    if found is None:
        raise MissingExtra(
            "--cluster needs java for Kafka, which is not installed", remedy="install Java 17 or newer, or take NATS"
        )
    return [found, *_JAVA, _LOGGING, "-cp", f"{_jars()}/*"]


def _jars() -> Path:
    script = next((found for name in _SCRIPTS if (found := shutil.which(name))), None)
    home = os.environ.get("KAFKA_HOME") or (script and Path(script).resolve().parents[1])
    if not home or not list((Path(home) / "libs").glob("kafka_*.jar")):
        raise MissingExtra(
            "--cluster needs Kafka's own files" + (f", and there are none in {home}/libs" if home else ""),
            remedy="unpack Apache Kafka 3.7 or newer and set KAFKA_HOME to its folder, or leave --broker out for NATS",
        )
    return Path(home) / "libs"
