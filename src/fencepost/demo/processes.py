"""Child processes of a demonstration: each in a session of its own, so that Ctrl-C reaches only the demonstration."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fencepost.config.entries import ENV_PREFIX


async def start(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> asyncio.subprocess.Process:
    """Start a process that writes to ``log``.

    ``env`` is added to this process's environment, of which the configuration of Fencepost is left out: it would send
    a demonstration's relays to somebody's real database.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**inherited, **(env or {})},
            start_new_session=True,
        )


async def ended(process: asyncio.subprocess.Process, *, grace_s: float) -> int:
    """End a process, asleep or not: SIGTERM, and SIGKILL after ``grace_s``. Its exit code."""
    send(process, signal.SIGCONT)
    send(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(grace_s):
            return await process.wait()
    except TimeoutError:
        send(process, signal.SIGKILL)
        return await process.wait()


def send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """A signal to a process that may be gone already."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(number)


def last_line(log: Path) -> str:
    """What a process wrote last: its last error where it names one."""
    lines = log.read_text(errors="replace").strip().splitlines()
    errors = [line for line in lines if line.startswith("error:")]
    return (errors or lines or ["it wrote nothing"])[-1]
