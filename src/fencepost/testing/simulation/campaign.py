"""Many seeds, on every core: what they found together, and whether they reached what they must reach."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

from fencepost.testing.simulation.mutants import MUTANTS, Mutant
from fencepost.testing.simulation.scenario import Scenario
from fencepost.testing.simulation.world import Result, simulate

RARE = (
    "circuit opened",
    "delayed message",
    "fall-back noticed",
    "fence fired",
    "in doubt, sent again",
    "late commit overtaken",
    "lease lost",
    "lease released",
    "lease taken early",
    "lease trust ended",
    "left unsettled at the end",
    "message parked",
    "message refused, tried again",
    "receipt used at take-over",
    "reply arrived twice",
    "settled by somebody else before",
    "silence told",
    "stood by",
    "two owners at once",
)
"""The rare branches. A run that never reaches one of them has proved less than it says, and fails."""

_CHUNK = 10
_EXAMPLES = 20

Progress = Callable[[int], None]


@dataclass(slots=True)
class Findings:
    """What some seeds found. ``violations`` are (seed, line)."""

    seeds: int = 0
    violations: list[tuple[int, str]] = field(default_factory=list)
    violated_seeds: int = 0
    marks: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    published: int = 0
    virtual_s: float = 0.0
    elapsed_s: float = 0.0

    def add(self, result: Result) -> None:
        """Count one seed."""
        self.seeds += 1
        self.violated_seeds += bool(result.violations)
        self.violations += [(result.scenario.seed, line) for line in result.violations]
        self.marks += result.marks
        self.faults += result.faults
        self.messages += result.messages
        self.published += result.published
        self.virtual_s += result.virtual_s

    def join(self, other: Findings) -> None:
        """Count what others found too."""
        self.seeds += other.seeds
        self.violated_seeds += other.violated_seeds
        self.violations = sorted(self.violations + other.violations)[:_EXAMPLES]
        self.marks += other.marks
        self.faults += other.faults
        self.messages += other.messages
        self.published += other.published
        self.virtual_s += other.virtual_s

    @property
    def unreached(self) -> list[str]:
        """The rare branches that no seed reached."""
        return [mark for mark in RARE if not self.marks[mark]]

    @property
    def ok(self) -> bool:
        """True where nothing was violated and everything was reached."""
        return not self.violated_seeds and not self.unreached


@dataclass(frozen=True, slots=True)
class Caught:
    """What became of a mutant: the first seed that noticed it, how many were tried, and what it noticed."""

    name: str
    rule: str
    seed: int | None
    tried: int
    violation: str


def search(first: int, count: int, *, jobs: int | None = None, progress: Progress | None = None) -> Findings:
    """Run ``count`` seeds from ``first`` on. ``progress`` is told how many more are done, again and again."""
    started, found = time.monotonic(), Findings()
    chunks = [(start, min(_CHUNK, first + count - start)) for start in range(first, first + count, _CHUNK)]
    for findings in _spread(_search, chunks, jobs):
        found.join(findings)
        if progress is not None:
            progress(findings.seeds)
    found.elapsed_s = time.monotonic() - started
    return found


def hunt(seeds: int, *, jobs: int | None = None, progress: Progress | None = None) -> list[Caught]:
    """Every mutant, each with up to ``seeds`` seeds until one of them notices it."""
    caught = {}
    for number, result in _spread(_hunt, [(n, seeds) for n in range(len(MUTANTS))], jobs):
        caught[number] = result
        if progress is not None:
            progress(1)
    return [caught[number] for number in sorted(caught)]


def catch(mutant: Mutant, seeds: int) -> Caught:
    """Run seeds with a weakened rule until a checker notices."""
    with mutant.weakening():
        for seed in range(seeds):
            violations = simulate(Scenario.of(seed, **mutant.where)).violations
            if violations:
                return Caught(mutant.name, mutant.rule, seed, seed + 1, violations[0])
    return Caught(mutant.name, mutant.rule, None, seeds, "")


def _search(first: int, count: int) -> Findings:
    found = Findings()
    for seed in range(first, first + count):
        found.add(simulate(Scenario.of(seed)))
    return found


def _hunt(number: int, seeds: int) -> tuple[int, Caught]:
    return number, catch(MUTANTS[number], seeds)


def _spread(work: Callable[..., Any], arguments: Sequence[tuple[int, int]], jobs: int | None) -> Iterator[Any]:
    jobs = jobs or os.cpu_count() or 1
    if jobs == 1 or len(arguments) == 1:
        for given in arguments:
            yield work(*given)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(work, *given) for given in arguments]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def as_record(findings: Findings) -> Mapping[str, Any]:
    """For ``--json``: units in the keys."""
    return {
        "seeds": findings.seeds,
        "violated_seeds": findings.violated_seeds,
        "violations": [{"seed": seed, "what": line} for seed, line in findings.violations],
        "unreached": findings.unreached,
        "marks": dict(sorted(findings.marks.items())),
        "faults": dict(sorted(findings.faults.items())),
        "messages": findings.messages,
        "published": findings.published,
        "simulated_s": round(findings.virtual_s, 1),
        "elapsed_s": round(findings.elapsed_s, 1),
        "seeds_per_minute": round(60 * findings.seeds / findings.elapsed_s) if findings.elapsed_s else 0,
    }
