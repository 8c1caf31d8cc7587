"""Where a plug-in's server is, when nobody says it: in memory, in a file of its own, or in the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fencepost.clock import SYSTEM_CLOCK
from fencepost.demo.ports import free_port
from fencepost.testing.places import fresh

VARIABLE = "FENCEPOST_TEST_{}_URL"


def address(kind: str, name: str, folder: Path) -> str:
    """The URL of a server for tests. Without one the test is skipped, or fails where CI is set: there it must be up."""
    if name == "memory":
        return f"memory://rules-{fresh()}"
    if name == "sqlite":
        return f"sqlite:///{folder / 'rules.db'}"
    if name == "sql":
        return f"inbox+sqlite:///{folder / 'rules.db'}"
    if name == "file":
        return f"file://{folder}/{{topic}}.jsonl"
    if name == "http":
        return f"http://127.0.0.1:{free_port(SYSTEM_CLOCK)}/{{topic}}"
    variable = VARIABLE.format(name.upper().replace(".", "_").replace("-", "_"))
    url = os.environ.get(variable)
    if url:
        return url
    reason = f"no address for the {kind} {name!r}: give --{kind}-url or set {variable}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)  # a laptop need not have every server; where CI is set the lines above fail instead
