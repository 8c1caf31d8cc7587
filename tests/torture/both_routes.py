"""What `make torture` runs: PostgreSQL to Kafka on the servers of dev/services, then SQLite to a NATS of its own.

    python tests/torture/both_routes.py [options of fencepost torture]

The servers are restarted meanwhile, too. With --cluster Kafka and NATS are three nodes each, of the command's own.
Reports are written to .services/torture/ unless --report says where.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TREE), str(TREE / "dev")]
from tests.torture.kafka_home import kafka_home  # noqa: E402 - it is found only now

RESTART = Path(__file__).resolve().with_name("restart_server.py")


def main(arguments: list[str]) -> int:
    """Both; the exit code of the first that failed."""
    folder = TREE / ".services" / "torture"
    os.environ["KAFKA_HOME"] = kafka_home(folder) or ""
    if "--report" in arguments:
        at = arguments.index("--report")
        folder = Path(arguments[at + 1])
        arguments = arguments[:at] + arguments[at + 2 :]
    routes = _routes(cluster="--cluster" in arguments)
    codes = [_torture(name, folder, options, arguments) for name, options in routes.items()]
    return next((code for code in codes if code), 0)


def _routes(*, cluster: bool) -> dict[str, list[str]]:
    services = [sys.executable, str(TREE / "dev" / "services"), "urls", "--json"]
    urls = json.loads(subprocess.run(services, check=True, capture_output=True, text=True).stdout)
    servers = ["--database", urls["postgresql"], "--broker", "kafka://" if cluster else urls["kafka"]]
    restarted = {"--restart-database": "postgresql"} | ({} if cluster else {"--restart-broker": "kafka"})
    for option, name in restarted.items():
        command = [sys.executable, str(RESTART), name]
        servers += [option, shlex.join([*command, "--kill"]), option, shlex.join(command)]
    return {"postgresql-to-kafka": servers, "sqlite-to-nats": []}


def _torture(name: str, folder: Path, options: list[str], arguments: list[str]) -> int:
    print(f"-- {name}", flush=True)
    command = [sys.executable, "-m", "fencepost", "torture", *options, "--report", str(folder / name), *arguments]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
