"""The command line of `dev/services`."""

import argparse
import fcntl
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from servers import install, lifecycle
from servers.catalogue import SERVERS
from servers.server import Server, ServerError
from servers.state import State

TREE = Path(__file__).resolve().parents[2]
DESCRIPTION = """\
Start and stop the servers that the tests talk to. Each one runs on a free port of loopback that is chosen at its first
start and then kept, with a data folder of its own (below .services in this tree, or below the temporary folder where
the server's account cannot enter the tree). They outlive this command; two checkouts do not disturb each other.
"""
EPILOG = """\
examples:
  dev/services install              bring what is missing (Debian as root; elsewhere it says what to install)
  dev/services up postgresql nats   start two of them and wait until they answer
  dev/services urls --json          the addresses of those that run, as one JSON object
  dev/services down --delete        stop all and delete their data

exit codes: 0 done, 1 something failed (one line each on standard error), 2 wrong usage
"""


def main(arguments: Sequence[str] | None = None, tree: Path = TREE) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    servers = [SERVERS[name] for name in options.names or SERVERS]
    run: Callable[[argparse.Namespace, list[Server], Path], int] = options.run
    return run(options, servers, tree)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dev/services",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    up = _command(commands, "up", _up, "start them and wait until they answer; those that run are left alone")
    up.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="how long to wait (default 120)")
    down = _command(commands, "down", _down, "stop them gracefully, then by force")
    down.add_argument("--delete", action="store_true", help="delete their data and forget their ports, too")
    _command(commands, "status", _status, "say of each whether it runs, where, and where its log is")
    urls = _command(commands, "urls", _urls, "print the addresses of those that run")
    urls.add_argument("--json", action="store_true", help="as one JSON object")
    _command(commands, "install", _install, "bring what they need and this machine lacks")
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace, list[Server], Path], int],
    text: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    which = f"which (default all): {', '.join(SERVERS)}"
    parser.add_argument("names", nargs="*", type=_known, metavar="NAME", help=which)
    parser.set_defaults(run=run)
    return parser


def _known(name: str) -> str:
    if name not in SERVERS:
        raise argparse.ArgumentTypeError(f"there is no {name!r}; there are {', '.join(SERVERS)}")
    return name


@contextmanager
def _alone(tree: Path) -> Iterator[State]:
    """The state of this tree, while no other command changes it."""
    folder = tree / ".services"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)  # a strict umask must not lock out the accounts that servers run as
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield State(tree)


def _up(options: argparse.Namespace, servers: list[Server], tree: Path) -> int:
    with _alone(tree) as state, ThreadPoolExecutor(len(servers)) as pool:
        done = list(pool.map(lambda server: _up_one(server, state, options.timeout), servers))
    return 0 if all(done) else 1


def _up_one(server: Server, state: State, timeout_s: float) -> bool:
    try:
        started = lifecycle.start(server, state, timeout_s)
    except (ServerError, OSError) as error:
        return _complain(f"{server.name}: {error}")
    note = "was up" if started.already else f"{started.seconds_s:.1f} s"
    print(f"{server.name:<11} {server.url(state.places[server.name]):<52} pid {started.pid:<8} {note}", flush=True)
    return True


def _down(options: argparse.Namespace, servers: list[Server], tree: Path) -> int:
    with _alone(tree) as state:
        chosen = [server for server in servers if server.name in state.places]
        with ThreadPoolExecutor(max(1, len(chosen))) as pool:
            list(pool.map(lambda server: _down_one(server, state), chosen))
        if options.delete:
            for server in chosen:
                lifecycle.delete(server, state)
    return 0


def _down_one(server: Server, state: State) -> None:
    began = time.monotonic()
    took = lifecycle.stop(server, state)
    if took:
        word = "killed" if "killed" in took else "stopped" if "stopped" in took else "was down"
        print(f"{server.name:<11} {word} {time.monotonic() - began:.1f} s", flush=True)


def _status(_options: argparse.Namespace, servers: list[Server], tree: Path) -> int:
    state = State(tree)
    for server in servers:
        print(f"{server.name:<11} {_condition(server, state)}")
    return 0


def _condition(server: Server, state: State) -> str:
    place = state.places.get(server.name)
    if place is None or not place.processes:
        return "down" if server.is_installed() else f"not installed: run `dev/services install {server.name}`"
    if place.runs():
        word = "up" if place.ready else "starting"
        return f"{word:<9} {server.url(place):<52} pid {place.processes[-1].pid:<8} log {place.log}"
    return f"{'dead':<9} (was pid {place.processes[-1].pid}) log {place.log}"


def _urls(options: argparse.Namespace, servers: list[Server], tree: Path) -> int:
    places = State(tree).places
    urls = {s.name: s.url(places[s.name]) for s in servers if s.name in places and places[s.name].serves()}
    if options.json:
        print(json.dumps(urls))
    else:
        for name, url in urls.items():
            print(f"{name:<11} {url}")
    return 0


def _install(_options: argparse.Namespace, servers: list[Server], tree: Path) -> int:
    try:
        with _alone(tree):
            missing = install.install(servers)
    except ServerError as error:
        missing = [str(error)]
    for line in missing:
        _complain(line)
    return 1 if missing else 0


def _complain(line: str) -> bool:
    print(line, file=sys.stderr, flush=True)
    return False
