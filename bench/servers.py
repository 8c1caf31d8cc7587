"""Where the servers are: those of dev/services, unless the command line names others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def url_of(name: str) -> str:
    """The URL of a server that dev/services runs; it is started where it does not run yet."""
    services = [sys.executable, str(ROOT / "dev" / "services")]
    subprocess.run([*services, "up", name], check=True, stdout=subprocess.DEVNULL)
    urls = json.loads(subprocess.run([*services, "urls", "--json"], check=True, capture_output=True, text=True).stdout)
    url: str = urls[name]
    return url


def child(module: str, options: dict[str, object]) -> dict[str, float]:
    """Run a benchmark module in a process of its own; its last line of output is its result as JSON."""
    command = [sys.executable, "-m", f"bench.{module}", json.dumps(options)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"bench.{module} failed ({done.returncode}):\n{done.stdout}\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result
