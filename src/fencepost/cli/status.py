"""`fencepost status`: the backlog, who leads, and the delivery in force; once, or again and again."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost import app
from fencepost.cli import output
from fencepost.cli.failures import MANNER, report
from fencepost.cli.settings import load_config
from fencepost.clock import SYSTEM_CLOCK
from fencepost.config import Config
from fencepost.errors import RetryError

if TYPE_CHECKING:
    from rich.table import Table


def status(file: Path | None, *, watch: bool, every_s: float, as_json: bool) -> None:
    """Show one report, or one every ``every_s`` until interrupted. Raises the database's own error."""
    config = load_config(file)
    if watch:
        asyncio.run(_watch(config, every_s, as_json=as_json))
        return
    found = asyncio.run(app.status(config))
    if as_json:
        output.json_line(_record(found))
    elif output.on_terminal():
        output.console().print(_table(found))
    else:
        for name, value in _rows(found):
            output.line(f"{name}: {value}")


async def _watch(config: Config, every_s: float, *, as_json: bool) -> None:
    async with app.Monitor(config) as monitor:
        with _screen(as_json) as screen:
            while True:
                try:
                    _update(await monitor.look(), screen, as_json=as_json)
                except RetryError as error:  # a person is watching: it may come back
                    report(error)
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise asyncio.CancelledError  # a client library has swallowed the interrupt
                await SYSTEM_CLOCK.sleep(every_s)


def _screen(as_json: bool) -> Any:
    if as_json or not output.on_terminal():
        return nullcontext()
    from rich.live import Live

    return Live(console=output.console(), auto_refresh=False)


def _update(found: app.StatusReport, screen: Any, *, as_json: bool) -> None:
    if as_json:
        output.json_line(_record(found))
    elif screen is None:
        output.line("  ".join(f"{name} {value}" for name, value in _rows(found)))
    else:
        screen.update(_table(found), refresh=True)


def _record(found: app.StatusReport) -> dict[str, Any]:
    """``brokers`` only where there are several."""
    shown = dataclasses.asdict(found)
    return shown if found.brokers else {name: value for name, value in shown.items() if name != "brokers"}


def _table(found: app.StatusReport) -> Table:
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in _rows(found):
        table.add_row(name, value)
    return table


def _rows(found: app.StatusReport) -> list[tuple[str, str]]:
    rows = [
        ("lane", found.lane),
        ("pending", f"{found.pending:,}"),
        ("oldest", output.seconds(found.oldest_age_s) if found.oldest_age_s is not None else "-"),
        ("delayed", f"{found.delayed:,}"),
        ("parked", f"{found.parked:,} (fencepost parked list)" if found.parked else "0"),
        ("leader", found.leader or "nobody"),
        ("term", str(found.term) if found.term is not None else "-"),
        ("lease", _lease(found)),
        ("delivery", found.delivery or "unknown"),
    ]
    if found.delivery_reason:
        rows.append(("why", found.delivery_reason))
    rows += [row for name, given in found.brokers.items() for row in _of_another(name, given)]
    return rows + [(f"{p.part} problem", MANNER.scrub(f"{p.what}; {p.remedy}".rstrip("; "))) for p in found.problems]


def _of_another(name: str, given: app.Given) -> list[tuple[str, str]]:
    why = [(f"why {name}", given.delivery_reason)] if given.delivery_reason else []
    return [(f"delivery {name}", given.delivery or "unknown"), *why]


def _lease(found: app.StatusReport) -> str:
    if found.lease_remaining_s is None or found.led_for_s is None:
        return "-"
    return f"{output.seconds(found.lease_remaining_s)} left, held for {output.seconds(found.led_for_s)}"
