"""Processes that outlive us: starting them detached, and knowing later whether a remembered number is still ours.

A process number alone proves nothing: after a crash or a restart of the machine it may name a stranger. A number is
therefore always kept with the moment its process started, and only the pair is ever signalled.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
POLL_S = 0.05


@dataclass(frozen=True)
class Process:
    """One process of ours: its number and the moment it started, as `identity` gave it then."""

    pid: int
    started: str


def identity(pid: int) -> str | None:
    """When the process with this number started, in a form that no other process ever has; None if there is none.

    A zombie counts as gone, once its last thread is: until then it may hold its ports and locks, as a JVM that was
    killed does for a moment.
    """
    return _identity_from_proc(pid) if (PROC / "self" / "stat").exists() else _identity_from_ps(pid)


def _identity_from_proc(pid: int) -> str | None:
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may itself hold blanks and parentheses: the fields start behind the last one.
    fields = stat.rpartition(")")[2].split()
    state, start_ticks = fields[0], fields[19]
    if state == "X" or (state == "Z" and not _has_threads(pid)):
        return None
    # Ticks count from the start of the machine, so the start of the machine belongs to the identity.
    boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{start_ticks}"


def _has_threads(pid: int) -> bool:
    """Whether threads run beside the first one."""
    try:
        return len(list((PROC / str(pid) / "task").iterdir())) > 1
    except OSError:
        return False


def _identity_from_ps(pid: int) -> str | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    state, _, started = answer.partition(" ")
    return started.strip() if answer and not state.startswith("Z") else None


def remember(pid: int) -> Process | None:
    """The process that has this number now, to be recognised later; None if there is none."""
    started = identity(pid)
    return Process(pid, started) if started is not None else None


def is_running(process: Process) -> bool:
    """Whether that very process still runs (and not another one that was given its number)."""
    return identity(process.pid) == process.started


def launch(
    argv: Sequence[str], *, folder: Path, log: Path, env: Mapping[str, str], user: str | None
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that it outlives this one and no terminal signal reaches it.

    Its output is appended to `log`. `user` names the account it runs as, None for ours.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            list(argv),
            cwd=folder,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=[] if user else None,
        )


def stop(process: Process, *, gentle: signal.Signals, patience_s: float) -> str:
    """End that very process: ask with `gentle`, after `patience_s` seconds kill. Says what it took.

    Returns "was gone", "stopped" or "killed". A stranger that has its number now is left alone.
    """
    if not _signal(process, gentle):
        return "was gone"
    if wait_gone(process, patience_s):
        return "stopped"
    _signal(process, signal.SIGKILL)
    wait_gone(process, patience_s)
    return "killed"


def _signal(process: Process, number: signal.Signals) -> bool:
    if not is_running(process):
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def wait_gone(process: Process, patience_s: float) -> bool:
    """Wait until that very process is gone; False when it still runs after `patience_s` seconds."""
    deadline = time.monotonic() + patience_s
    while is_running(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
