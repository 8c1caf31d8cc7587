"""Restart a server that dev/services runs, and return when it answers: for `fencepost torture --restart-...`.

    python tests/torture/restart_server.py NAME [--kill] [--tree TREE]

`--kill` ends it with SIGKILL instead of in its ordinary way.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
TIMES = 3


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--tree", type=Path, default=TREE, help="whose servers")
    options = parser.parse_args()
    services = [sys.executable, str(options.tree / "dev" / "services")]
    if options.kill:
        os.kill(_pid(options.tree, options.name), signal.SIGKILL)
    else:
        subprocess.run([*services, "down", options.name], check=True, stdout=subprocess.DEVNULL)
    for _ in range(TIMES):  # what a killed server left behind may be in the way for a moment
        if subprocess.run([*services, "up", options.name], check=False, stdout=subprocess.DEVNULL).returncode == 0:
            return 0
        time.sleep(1.0)
    return 1


def _pid(tree: Path, name: str) -> int:
    """The process of the server itself."""
    sys.path.insert(0, str(tree / "dev"))
    from servers.state import State

    return State(tree).places[name].processes[-1].pid


if __name__ == "__main__":
    raise SystemExit(main())
