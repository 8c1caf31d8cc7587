"""Three NATS servers with JetStream, and streams that are on each of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fencepost.clock import Clock
from fencepost.demo.nats_server import binary
from fencepost.demo.ports import HOST, free_ports
from fencepost.testing.torture.cluster import NODES, Node, Nodes

_ANSWER_S = 2.0
# Without no_advertise a client would be told of the nodes' own addresses, and go past its proxies.
_CONFIG = """\
server_name: {name}
listen: "{host}:{client}"
http: "{host}:{monitor}"
jetstream {{ store_dir: "{data}" }}
cluster {{ name: torture, listen: "{host}:{route}", routes: [{routes}], no_advertise: true }}
"""


def nats_nodes(folder: Path, clock: Clock) -> Nodes:
    """The nodes, not started yet; data, settings and logs are in ``folder``. Raises MissingExtra."""
    ports = free_ports(3 * NODES, clock)
    clients, monitors, routes = ports[:NODES], ports[NODES : 2 * NODES], ports[2 * NODES :]
    known = ", ".join(f'"nats://{HOST}:{port}"' for port in routes)
    nodes = []
    for number, (client, monitor, route) in enumerate(zip(clients, monitors, routes, strict=True), 1):
        name = f"node-{number}"
        data = folder / name
        data.mkdir()
        config = folder / f"{name}.conf"
        places = {"host": HOST, "client": client, "monitor": monitor, "route": route, "data": data}
        config.write_text(_CONFIG.format(name=name, routes=known, **places), encoding="utf-8")
        nodes.append(Node(name, [str(binary()), "-c", str(config)], folder / f"{name}.log"))
    url = f"nats://{','.join(f'{HOST}:{port}' for port in clients)}"
    return Nodes(url, {"replicas": NODES}, nodes, partial(_is_whole, monitors))


async def _is_whole(ports: Sequence[int]) -> bool:
    """Every node is well, knows who leads each stream, and who leads one sees that all others have caught up."""
    return all(await asyncio.gather(*(_is_well(port, f"node-{number}") for number, port in enumerate(ports, 1))))


async def _is_well(port: int, name: str) -> bool:
    try:
        async with asyncio.timeout(_ANSWER_S):
            status, _ = await _asked(port, "/healthz")
            _, body = await _asked(port, "/jsz?streams=true")
    except (OSError, TimeoutError):
        return False
    return b" 200 " in status and _is_current(json.loads(body or b"{}"), name)


async def _asked(port: int, path: str) -> tuple[bytes, bytes]:
    """The first line and the body of the answer."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return head.partition(b"\r\n")[0], body
    finally:
        writer.close()


def _is_current(told: Mapping[str, Any], name: str) -> bool:
    streams = [stream for account in told.get("account_details", ()) for stream in account.get("stream_detail", ())]
    groups = [told.get("meta_cluster", {}), *(stream.get("cluster", {}) for stream in streams)]
    led = [group for group in groups if group.get("leader") == name]
    return all(group.get("leader") for group in groups) and all(
        other["current"] for group in led for other in group.get("replicas", ())
    )
