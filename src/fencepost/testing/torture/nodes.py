"""Starting a cluster of the run's own, and removing it at the end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fencepost import plugins
from fencepost.clock import Clock
from fencepost.testing.torture.cluster import Cluster, Nodes
from fencepost.testing.torture.nats_nodes import nats_nodes


@asynccontextmanager
async def own_cluster(broker: str | None, clock: Clock) -> AsyncIterator[Cluster]:
    """A cluster that runs: of Kafka where ``broker`` is "kafka://", otherwise of NATS.

    Raises MissingExtra or Unavailable.
    """
    folder = Path(tempfile.mkdtemp(prefix="fencepost-cluster-"))
    try:
        cluster = Cluster(await _nodes(broker, folder, clock), clock)
        try:
            await cluster.start()
            yield cluster
        finally:
            await cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _nodes(broker: str | None, folder: Path, clock: Clock) -> Nodes:
    name = "nats" if broker is None else plugins.name_of("broker", broker)
    plugins.load("broker", name)  # says which extra is missing
    if name == "kafka":
        from fencepost.testing.torture.kafka_nodes import kafka_nodes

        return await kafka_nodes(folder, clock)
    return nats_nodes(folder, clock)
