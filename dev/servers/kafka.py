"""Kafka, one node that is broker and controller at once. Its jars come from Maven into a folder outside the tree."""

import base64
import os
import struct
from pathlib import Path

from servers.maven import JavaServer, copy_jars
from servers.ports import HOST
from servers.server import CACHE, Launch, connection, need_program, receive
from servers.state import Place

VERSION = "4.4.0"
# Kafka brings log4j but not the bridge that leads its own log lines there.
ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.5"),
)
FOLDER = CACHE / f"kafka-{VERSION}"
LOGGING = "-Dorg.apache.logging.log4j.level=WARN"
JAVA_OPTIONS = ["-Xmx768m", "-XX:+UseSerialGC", "-XX:-UsePerfData", LOGGING, "-cp", f"{FOLDER}/*"]
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{client},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{client}
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
# A metadata request, version 1, about no topic: key, version, number of the request, no client name, zero topics.
METADATA_REQUEST = struct.pack("!hhihi", 3, 1, 1, -1, 0)


class Kafka(JavaServer):
    """KRaft mode: no ZooKeeper."""

    name = "kafka"
    port_names = ("client", "controller")
    cache = FOLDER
    ready = f"kafka_2.13-{VERSION}.jar"
    stop_patience_s = 30.0

    def load(self, draft: Path, made: Path) -> None:
        """See JavaServer."""
        copy_jars("Kafka", ARTIFACTS, draft, made)

    def prepare(self, place: Place) -> None:
        """See Server."""
        data = place.folder / "data"
        settings = SETTINGS.format(host=HOST, data=data, **place.ports)
        (place.folder / "server.properties").write_text(settings, encoding="utf-8")
        if (data / "meta.properties").exists():
            return
        cluster = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        java = [need_program("java"), *JAVA_OPTIONS, "kafka.tools.StorageTool"]
        self.call(place, [*java, "format", "-t", cluster, "-c", str(place.folder / "server.properties")])

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        # Its compression libraries unpack themselves into the temporary folder, and would leave that behind.
        java = [need_program("java"), f"-Djava.io.tmpdir={place.folder}", *JAVA_OPTIONS]
        return [Launch([*java, "kafka.Kafka", str(place.folder / "server.properties")])]

    def answers(self, place: Place) -> bool:
        """The metadata name at least one broker: before that, the node has not joined its own cluster."""
        with connection(place.ports["client"]) as link:
            link.sendall(struct.pack("!i", len(METADATA_REQUEST)) + METADATA_REQUEST)
            length, _number, brokers = struct.unpack("!iii", receive(link, 12))
            receive(link, length - 8)
            return bool(brokers > 0)

    def url(self, place: Place) -> str:
        """See Server."""
        return f"kafka://{HOST}:{place.ports['client']}"
