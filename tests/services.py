"""Where the real servers of the tests are: in the environment, or among those that `dev/services` runs."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from servers.ports import pick
from servers.server import find_program

TREE = Path(__file__).resolve().parents[1]
SERVERS = (
    "postgresql",
    "mariadb",
    "redis",
    "rabbitmq",
    "mqtt",
    "nats",
    "kafka",
    "apicurio",
    "dynamodb",
    "sqs",
    "sns",
    "secantusdb",
    "mongo-java-server",
)


@functools.cache
def running() -> dict[str, str]:
    """The addresses of the servers that `dev/services` runs in this tree, by name."""
    command = [sys.executable, str(TREE / "dev" / "services"), "urls", "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return {str(name): str(url) for name, url in json.loads(answer.stdout).items()}


def url_of(name: str) -> str:
    """The address of a server. Where there is none see ``absent``."""
    variable = f"FENCEPOST_TEST_{name.upper().replace('-', '_')}_URL"
    url = os.environ.get(variable) or running().get(name)
    return url or absent(f"no {name}: run `dev/services up {name}` or set {variable}")


def needed(program: str, package: str = "") -> str:
    """The path of a program. Where it is missing see ``absent``."""
    return find_program(program) or absent(f"no {program}: install it (Debian: apt install {package or program})")


def absent(reason: str) -> NoReturn:
    """Something that a test needs is missing: it is skipped, or fails where CI is set: there it must be."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)  # a laptop need not have every server and every program


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    return pick(())
