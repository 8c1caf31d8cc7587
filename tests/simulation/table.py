"""Writes the table of weakened rules in docs/simulation.md: ``python -m tests.simulation.table`` (some minutes)."""

from __future__ import annotations

import sys
from pathlib import Path

from fencepost.testing.simulation.campaign import Caught, hunt

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
BEGIN, END = "<!-- mutants: begin -->\n", "<!-- mutants: end -->\n"


def written(caught: list[Caught]) -> str:
    """The table."""
    rows = [f"| {c.name} | {c.rule} | {c.tried} | {_kind(c.violation)} |" for c in caught]
    return (
        "\n".join(["| without it | the rule | seeds until noticed | noticed as |", "|---|---|---|---|", *rows]) + "\n"
    )


def noticing() -> dict[str, int]:
    """The seed that notices each mutant, as the table has it."""
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [line.split("|") for line in table.splitlines()[2:]]
    return {row[1].strip(): int(row[3]) - 1 for row in rows}


def _kind(violation: str) -> str:
    """The violation without its ids."""
    if "in the term of" in violation:
        return "a publish in somebody else's term"
    return violation.partition(":")[0] or "not noticed"


def main() -> int:
    """Run, and write."""
    caught = hunt(600)
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + BEGIN + written(caught) + END + rest.partition(END)[2])
    return int(any(c.seed is None for c in caught))


if __name__ == "__main__":
    sys.exit(main())
