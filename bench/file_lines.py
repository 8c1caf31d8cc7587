"""The ceiling of files: the same lines, made beforehand, appended and synced in batches of the same size.

Run by ``bench.relay --broker file:///folder/{topic}.jsonl``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from bench import meter, workload
from fencepost.brokers.file.address import Address


def main(url: str, topic: str, rows: int, batch: int, size: int) -> dict[str, float]:
    """Messages per second and CPU per message."""
    path = Path(Address.of(url).path(topic))
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [line(row) for row in workload.rows(rows, topic=topic, size=size)]
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    started, cpu = time.perf_counter(), meter.cpu_s()
    for first in range(0, rows, batch):
        os.write(descriptor, b"".join(lines[first : first + batch]))
        os.fsync(descriptor)
    elapsed, cpu = time.perf_counter() - started, meter.cpu_s() - cpu
    os.close(descriptor)
    return {"messages_per_s": rows / elapsed, "cpu_us_per_message": cpu / rows * 1e6}


def line(row: workload.Row) -> bytes:
    """A message as an event of CloudEvents."""
    id_, topic, key, version, kind, _, payload, content_type, moment = row
    event = {
        "topic": topic,
        "specversion": "1.0",
        "id": id_,
        "source": "/bench",
        "type": kind,
        "time": str(moment),
        "datacontenttype": content_type,
        "subject": key,
        "entityversion": str(version),
    }
    return b'%b,"data":%b}\n' % (json.dumps(event)[:-1].encode(), payload)


def forget(url: str, topic: str) -> None:
    """Remove what was published."""
    Path(Address.of(url).path(topic)).unlink(missing_ok=True)


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
