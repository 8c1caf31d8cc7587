"""Bringing what is missing: Debian packages where we may install them, else a line that says what is needed."""

import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from servers.server import Server, ServerError, find_program

POLICY = Path("/usr/sbin/policy-rc.d")
NO_SERVICES = "#!/bin/sh\nexit 101\n"


def install(servers: Iterable[Server]) -> list[str]:
    """Install what these servers lack. Returns one line for each that still cannot be started."""
    chosen = list(servers)
    packages = sorted({package for server in chosen for package in server.packages()})
    if packages and _may_install():
        _apt(packages)
    return [line for server in chosen if (line := _finish(server))]


def _finish(server: Server) -> str | None:
    try:
        if not server.packages():
            server.fetch()
    except ServerError as error:
        return f"{server.name}: {error}"
    return None if server.is_installed() else f"{server.name}: install {server.elsewhere}"


def _may_install() -> bool:
    return os.geteuid() == 0 and find_program("apt-get") is not None


def _apt(packages: list[str]) -> None:
    print(f"apt-get install {' '.join(packages)}", flush=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _services_stay_off():
        for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            argv = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0", *command]
            done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
                raise ServerError(f"apt-get {command[0]} failed: {lines[-1]}")


@contextmanager
def _services_stay_off() -> Iterator[None]:
    """Debian starts a server when it is installed, on its usual port; it asks this file first whether it may."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text(NO_SERVICES, encoding="ascii")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
