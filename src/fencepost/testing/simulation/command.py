"""The command `fencepost simulate`. What it needs is imported when it runs: help should be quick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fencepost.testing.simulation.campaign import Caught, Findings, Progress

_WRONG = 1
_MUTANT_SEEDS = 600


def simulate(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run.")] = 1000,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="SEED", help="Run this seed alone and print its whole history.")
    ] = None,
    mutants: Annotated[
        bool, typer.Option("--mutants", help="Take one rule away at a time: each must be noticed.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes. Default: one for each core.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
) -> None:
    """Search simulated histories for a broken promise.

    Real relays run under a virtual clock and a seeded chance, against servers that crash, hang, fall back and are cut
    off. The same seed is the same history. Exits with 0 only if no seed breaks a promise and every rare branch was
    reached (with --mutants: if every weakened rule was noticed).

    Example: fencepost simulate --seeds 10000
    """
    if seed is not None:
        ok = _one(seed, as_json=as_json)
    elif mutants:
        ok = _mutants(jobs, as_json=as_json)
    else:
        ok = _many(first, seeds, jobs, as_json=as_json)
    if not ok:
        raise typer.Exit(_WRONG)


def _one(seed: int, *, as_json: bool) -> bool:
    from fencepost.testing.simulation import Scenario
    from fencepost.testing.simulation import simulate as run

    result = run(Scenario.of(seed))
    for line in result.history:
        typer.echo(line)
    typer.echo(f"seed {seed}: {result.messages} messages, {result.published} published, digest {result.digest:08x}")
    for violation in result.violations:
        typer.echo(f"violated: {violation}")
    if as_json:
        _json({"seed": seed, "digest": f"{result.digest:08x}", "violations": result.violations})
    return not result.violations


def _many(first: int, count: int, jobs: int | None, *, as_json: bool) -> bool:
    from fencepost.testing.simulation.campaign import as_record, search

    with _progress(f"seeds {first} to {first + count - 1}", count, quiet=as_json) as progress:
        found = search(first, count, jobs=jobs, progress=progress)
    _tell(found)
    if as_json:
        _json(as_record(found))
    return found.ok


def _tell(found: Findings) -> None:
    minutes = found.elapsed_s / 60
    typer.echo(
        f"{found.seeds:,} seeds in {minutes:.1f} min ({found.seeds / minutes:,.0f} a minute): {found.messages:,}"
        f" messages, {sum(found.faults.values()):,} faults in {found.virtual_s / 60:,.0f} simulated minutes"
    )
    for mark, count in sorted(found.marks.items()):
        typer.echo(f"  {count:>9,}  {mark}")
    for number, line in found.violations:
        typer.echo(f"violated by seed {number}: {line}")
    if found.violations:
        typer.echo(f"the whole history: fencepost simulate --seed {found.violations[0][0]}")
    for mark in found.unreached:
        typer.echo(f"never reached: {mark} (more seeds, or something keeps it from happening)")
    typer.echo(f"broken promises: in {found.violated_seeds} of {found.seeds:,} seeds")


def _mutants(jobs: int | None, *, as_json: bool) -> bool:
    from fencepost.testing.simulation.campaign import hunt
    from fencepost.testing.simulation.mutants import MUTANTS

    with _progress("mutants", len(MUTANTS), quiet=as_json) as progress:
        caught = hunt(_MUTANT_SEEDS, jobs=jobs, progress=progress)
    for each in caught:
        seen = (
            f"noticed after {each.tried}: {each.violation}" if each.seed is not None else f"NOT NOTICED by {each.tried}"
        )
        typer.echo(f"  {each.name:24} {seen}")
    if as_json:
        _json({"mutants": [_record(each) for each in caught], "missed": sum(each.seed is None for each in caught)})
    return all(each.seed is not None for each in caught)


def _record(caught: Caught) -> dict[str, Any]:
    return {"name": caught.name, "rule": caught.rule, "seed": caught.seed, "violation": caught.violation}


def _json(record: object) -> None:
    import json

    typer.echo(json.dumps(record))


@contextmanager
def _progress(what: str, total: int, *, quiet: bool) -> Iterator[Progress]:
    """A bar on a terminal, nothing in a pipe."""
    import sys

    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    if quiet or not sys.stdout.isatty():
        yield lambda _: None
        return
    with Bar(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
