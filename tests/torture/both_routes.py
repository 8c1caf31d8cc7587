"""What `make torture` runs: PostgreSQL to Kafka on the servers of dev/services, then SQLite to a NATS of its own.

    python tests/torture/both_routes.py [options of fencepost torture]

The servers are restarted meanwhile, too. Reports are written to .services/torture/ unless --report says where.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
RESTART = Path(__file__).resolve().with_name("restart_server.py")


def main(arguments: list[str]) -> int:
    """Both; the exit code of the first that failed."""
    folder = TREE / ".services" / "torture"
    if "--report" in arguments:
        at = arguments.index("--report")
        folder = Path(arguments[at + 1])
        arguments = arguments[:at] + arguments[at + 2 :]
    codes = [_torture(name, folder, options, arguments) for name, options in _routes().items()]
    return next((code for code in codes if code), 0)


def _routes() -> dict[str, list[str]]:
    services = [sys.executable, str(TREE / "dev" / "services"), "urls", "--json"]
    urls = json.loads(subprocess.run(services, check=True, capture_output=True, text=True).stdout)
    servers = ["--database", urls["postgresql"], "--broker", urls["kafka"]]
    for option, name in (("--restart-database", "postgresql"), ("--restart-broker", "kafka")):
        command = [sys.executable, str(RESTART), name]
        servers += [option, shlex.join([*command, "--kill"]), option, shlex.join(command)]
    return {"postgresql-to-kafka": servers, "sqlite-to-nats": []}


def _torture(name: str, folder: Path, options: list[str], arguments: list[str]) -> int:
    print(f"-- {name}", flush=True)
    command = [sys.executable, "-m", "fencepost", "torture", *options, "--report", str(folder / name), *arguments]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
