"""Starting a server until it answers, and stopping it: the same steps for each kind."""

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from servers import folders, ports, process
from servers.server import Server, ServerError
from servers.state import Place, State

POLL_S = 0.1
# A database that was killed may find its own remains for a moment.
ATTEMPTS = 2
RETRY_PAUSE_S = 1.0
TELLING = ("fatal", "error", "exception", "could not", "cannot", "can't", "failed", "unable")


@dataclass(frozen=True)
class Started:
    """What `start` found or did: the server's own process number, how long it took, whether it ran already."""

    pid: int
    seconds_s: float
    already: bool


def start(server: Server, state: State, timeout_s: float) -> Started:
    """Bring one server up and wait until it answers; one that already does is left as it is.

    Raises ServerError with one line of reason. Afterwards the state names every process that was started.
    """
    began = time.monotonic()
    place = state.places.get(server.name)
    if place is not None and _still_answers(server, place, began + timeout_s):
        return Started(place.processes[-1].pid, time.monotonic() - began, already=True)
    if not server.is_installed():
        raise ServerError(f"not installed: run `dev/services install {server.name}`")
    place = _make_ready(server, state)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _start_once(server, state, place, began + timeout_s)
            break
        except ServerError:
            stop(server, state)
            if attempt == ATTEMPTS or time.monotonic() - began > timeout_s:
                raise
            time.sleep(RETRY_PAUSE_S)
    return Started(place.processes[-1].pid, time.monotonic() - began, already=False)


def _still_answers(server: Server, place: Place, deadline: float) -> bool:
    """Whether it runs and answers. One that ends meanwhile, as a killed one does after a moment, does not."""
    if not place.serves():
        return False
    try:
        wait_until_it_answers(server, place, deadline, place.runs)
    except ServerError:
        if place.runs():
            raise
        return False
    return True


def _make_ready(server: Server, state: State) -> Place:
    """The server's place: what is left of an earlier start is ended, its folder there, its ports free."""
    place = state.places.get(server.name)
    if place is None or not place.folder.is_dir():
        place = Place(folders.choose(server.name, state.folder, server.run_as()))
        state.places[server.name] = place
    stop(server, state)
    for name in server.port_names:
        if name not in place.ports or not ports.is_free(place.ports[name]):
            place.ports[name] = ports.pick(state.taken_ports())
    state.save()
    return place


def _start_once(server: Server, state: State, place: Place, deadline: float) -> None:
    offset = place.log.stat().st_size if place.log.exists() else 0
    try:
        server.prepare(place)
        children = _launch(server, state, place)
        wait_until_it_answers(server, place, deadline, lambda: all(child.poll() is None for child in children))
    except (ServerError, OSError) as error:
        raise ServerError(f"{error}{_reason(place.log, offset)}; log: {place.log}") from error
    for pid in server.companions(place):
        companion = process.remember(pid)
        if companion is not None:
            place.processes.insert(-1, companion)
    place.ready = True
    state.save()


def _launch(server: Server, state: State, place: Place) -> list[subprocess.Popen[bytes]]:
    """Start the server's programs; each is written down before the next one starts."""
    children = []
    for launch in server.launches(place):
        child = process.launch(launch.argv, folder=place.folder, log=place.log, env=launch.env, user=server.run_as())
        children.append(child)
        started = process.remember(child.pid)
        if started is None:
            raise ServerError(f"ended at once with exit code {child.wait()}")
        place.processes.append(started)
        state.save()
    return children


def wait_until_it_answers(
    server: Server, place: Place, deadline: float, runs: Callable[[], bool], poll_s: float = POLL_S
) -> None:
    """Ask every ``poll_s`` until it answers. Raises ServerError where it ends instead, or the deadline is over."""
    while True:
        try:
            if server.answers(place):
                return
        except OSError:
            pass  # not listening yet, or not speaking yet: asked again until the deadline
        if not runs():
            raise ServerError("ended while starting")
        if time.monotonic() > deadline:
            raise ServerError("does not answer in time")
        time.sleep(poll_s)


def _reason(log: Path, offset: int) -> str:
    """The line of the log, since this start, that tells most; empty when there is none."""
    if not log.exists():
        return ""
    with log.open("rb") as content:
        content.seek(offset)
        lines = [line.strip() for line in content.read().decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line.lower() for word in TELLING) and not line.startswith("at ")]
    chosen = (telling or lines)[-1:]
    return f": {chosen[0][:300]}" if chosen else ""


def stop(server: Server, state: State) -> list[str]:
    """End every process of one server that is still ours, the last started first. Says what each took."""
    place = state.places.get(server.name)
    if place is None:
        return []
    took = [
        process.stop(one, gentle=server.stop_signal, patience_s=server.stop_patience_s)
        for one in reversed(place.processes)
    ]
    place.processes.clear()
    place.ready = False
    state.save()
    return took


def delete(server: Server, state: State) -> None:
    """Remove the data of a server that was stopped, and forget its place."""
    place = state.places.pop(server.name, None)
    if place is not None:
        shutil.rmtree(place.folder, ignore_errors=True)
        state.save()
