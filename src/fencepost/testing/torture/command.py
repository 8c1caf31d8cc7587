"""The command `fencepost torture`. What it needs is imported when it runs: help should be quick."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fencepost.config import Config
    from fencepost.testing.torture.records import TortureOptions, TortureResult
    from fencepost.testing.torture.screen import Show

WRONG = 1
INTERRUPTED = 130


def torture(
    database: Annotated[
        str | None, typer.Option(metavar="URL", help="Your database. Default: a SQLite file of its own.")
    ] = None,
    broker: Annotated[
        str | None, typer.Option(metavar="URL", help="Your broker. Default: a NATS server of its own.")
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(metavar="MODULE", help="Has reader(options) for a broker plug-in of yours, as the rules need it."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Your servers, as this configuration names them."),
    ] = None,
    minutes: Annotated[float, typer.Option(min=0.05, max=10_000, help="How long trouble is made.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Make the same faults at the same moments again.")] = None,
    relays: Annotated[int, typer.Option(min=1, max=20, help="Relay processes.")] = 3,
    rate: Annotated[float, typer.Option(min=1, max=5000, help="Transactions per second.")] = 150.0,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.2, help="Mean time between two faults.")] = 4.0,
    ttl: Annotated[float, typer.Option(metavar="SECONDS", min=0.5, max=60, help="The length of the lease.")] = 2.0,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby",
            help="A PostgreSQL of its own, with an asynchronous standby that takes over and misses the end.",
        ),
    ] = False,
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster",
            help="Three nodes of its own, one at a time is killed: NATS, or Kafka with --broker kafka://.",
        ),
    ] = False,
    restart_database: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COMMAND",
            help="Restarts the database and returns when it answers; given twice, the first one by force.",
        ),
    ] = None,
    restart_broker: Annotated[
        list[str] | None, typer.Option(metavar="COMMAND", help="The same for the broker.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write report.md and report.json into this folder.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave files, logs, tables and topics where they are.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
) -> None:
    """Kill, pause, cut off; then count what arrived.

    Real relay processes work on real servers while they are killed and paused, their connections are cut, held back,
    half-open and slow, and servers are restarted, by a schedule that the seed decides. Writers commit, roll back and
    commit late all the while. At the end everything is read back and compared with what was committed. Exits with 0
    only if nothing was lost, repeated, out of order or made up, and nothing is left in the outbox.

    Example: fencepost torture --minutes 10 --database postgresql://postgres@localhost/postgres --broker kafka://localhost
    """
    from fencepost.errors import ConfigurationError
    from fencepost.testing.torture.records import OWN_CLUSTERS, TortureOptions

    if standby and (database or restart_database):
        raise ConfigurationError("--standby brings a database of its own", remedy="leave --database out")
    if cluster and (broker not in OWN_CLUSTERS or restart_broker):
        raise ConfigurationError(
            "--cluster brings a broker of its own", remedy="leave --broker out for NATS, or write --broker kafka://"
        )
    if reader and not (broker or config):
        raise ConfigurationError("--reader reads a broker of yours", remedy="name it with --broker or --config")
    options = TortureOptions(
        database=database,
        broker=broker,
        reader=reader,
        config=_loaded(config),
        seconds=minutes * 60,
        relays=relays,
        rate_per_s=rate,
        every_s=every,
        ttl_s=ttl,
        seed=seed,
        standby=standby,
        cluster=cluster,
        restart_database=tuple(restart_database or ()),
        restart_broker=tuple(restart_broker or ()),
        report=None if report is None else str(report),
        keep=keep,
    )
    try:
        result = _run(options, as_json=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    _tell(result, report, as_json=as_json)
    if not result.ok:
        raise typer.Exit(WRONG)


def _loaded(file: Path | None) -> Config | None:
    import os

    from fencepost.config import load

    return None if file is None else load(file, os.environ)


def _run(options: TortureOptions, *, as_json: bool) -> TortureResult:
    import asyncio
    import logging
    import sys

    from fencepost.testing.torture.screen import showing

    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of every connection that a proxy cuts
    with showing(live=sys.stdout.isatty() and not as_json) as show:
        return asyncio.run(_cancellable(options, show))


async def _cancellable(options: TortureOptions, show: Show) -> TortureResult:
    """Ctrl-C, a closed terminal and SIGTERM all clean up: servers and relays are stopped, tables and topics removed."""
    import asyncio
    import signal

    from fencepost.testing.torture.run import run

    task = asyncio.create_task(run(options, show))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _tell(result: TortureResult, report: Path | None, *, as_json: bool) -> None:
    import json

    from fencepost.testing.torture.report import record, written
    from fencepost.testing.torture.screen import line, told

    told(result)
    if report is not None:
        written(result, report)
        line(f"report: {report / 'report.md'}")
    if as_json:
        line(json.dumps(record(result)))
