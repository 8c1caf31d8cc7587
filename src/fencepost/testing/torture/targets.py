"""To whom what can be done in a run, and what cannot be done and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.testing.torture.cluster import NODES, Cluster
from fencepost.testing.torture.network import Route
from fencepost.testing.torture.records import Server, TortureOptions
from fencepost.testing.torture.schedule import Possible
from fencepost.testing.torture.servers import Restartable
from fencepost.testing.torture.standby import Pair
from fencepost.testing.torture.stutter import Stuttering

Routes = Mapping[Server, Route]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The servers of a run that can be ended, replaced or stopped for moments."""

    restart: Mapping[Server, Restartable]
    pair: Pair | None = None
    cluster: Cluster | None = None
    stutter: Stuttering | None = None
    """The broker, where its processes are the command's own."""


def possible(routes: Routes, targets: Targets, options: TortureOptions, *, ends_sessions: bool) -> Possible:
    """What a schedule may have in it. ``ends_sessions``: the database can."""
    network = tuple(server for server, route in routes.items() if not route.why_not)
    return Possible(
        network=network,
        writers="database" in network,
        terminate=ends_sessions and "database" in network,
        restart=tuple(sorted(targets.restart)),
        nodes=NODES if targets.cluster is not None else 0,
        stutter=targets.stutter is not None,
        standbys=options.relays > 1,
        fall_back=targets.pair is not None,
    )


def impossible(routes: Routes, targets: Targets, options: TortureOptions, *, ends_sessions: bool) -> list[str]:
    """Which faults were left out on these servers, and why."""
    found = [
        f"cut, hold, half-open, slow, narrow to the {server}: {route.why_not}"
        for server, route in routes.items()
        if route.why_not
    ]
    if not ends_sessions and not routes["database"].why_not:
        found.append("terminate of the database: no user may end the sessions of others there")
    replaced: dict[Server, object] = {"database": targets.pair, "broker": targets.cluster}
    found += [
        f"restart of the {server}: the command was not told how (--restart-{server})"
        for server, route in routes.items()
        if server not in targets.restart and "file" not in route.why_not and replaced[server] is None
    ]
    found += ["stutter of the broker: its process is not the command's own"] if targets.stutter is None else []
    return found + (["kill of a standby: there is none"] if options.relays < 2 else [])
