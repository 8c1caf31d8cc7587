"""Writes what the models show into docs/model.md: ``python -m tests.model.pictures``, in the folder of the project."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.model.promises import told
from tests.model.search import STUCK
from tests.model.state import RELAYS, Batch, Party, Row, Step
from tests.model.table import LANE_RULES, LANE_SEARCHES, RULES, SEARCHES, Rule, Search, found

PAGE = Path(__file__).resolve().parents[2] / "docs" / "model.md"
PARTS = {"handoff": (SEARCHES, RULES), "lanes": (LANE_SEARCHES, LANE_RULES)}

History = Sequence[tuple[Step, Any]]


def written(text: str) -> str:
    """The page with its generated parts as they should be. Raises ValueError where a marker is missing."""
    for name, (searches, rules) in PARTS.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
        before, found_begin, rest = text.partition(begin)
        _, found_end, after = rest.partition(end)
        if not found_begin or not found_end:
            raise ValueError(f"{PAGE.name} has no part {name}")
        text = f"{before}{begin}\n{part(searches, rules)}\n{end}{after}"
    return text


def part(searches: Sequence[Search], rules: Sequence[Rule]) -> str:
    """Tables of the searches and the rules, and a picture for each rule."""
    return "\n".join([*_searches(searches), "", *_rules(rules), *[line for rule in rules for line in picture(rule)]])


def _searches(searches: Sequence[Search]) -> Iterator[str]:
    yield from _table(["what is in it", "states", "violations"])
    for search in searches:
        result = found(search.model)
        yield _row([search.says, f"{result.states:,}", ", ".join(sorted(result.histories)) or "none"])


def _rules(rules: Sequence[Rule]) -> Iterator[str]:
    yield from _table(["rule", "what it says", "without it", "messages are"])
    for rule in rules:
        link = f"[{rule.title}](#without-{rule.title.replace(' ', '-')})"
        yield _row([link, rule.says, rule.without, "never published" if rule.breaks == STUCK else rule.breaks])


def picture(rule: Rule) -> Iterator[str]:
    """The shortest history in which a promise is broken without the rule: a row a step, a column a party."""
    model = rule.taken_away()
    history = found(model, stop=rule.breaks != STUCK).histories[rule.breaks]
    yield from ("", f"### Without: {rule.title}", "", f"{rule.says} {rule.without}", "")
    parties = _parties(history)
    yield from _table(["", *parties])
    for number, (party, text) in enumerate(_turns(history), 1):
        yield _row([str(number), *[text if party == each else "" for each in parties]])
    yield from ("", f"**{told(rule.breaks, model.seen(history[-1][1]))}**")


def _parties(history: History) -> list[Party]:
    second: list[Party] = [RELAYS[1]] if any(step.party == RELAYS[1] for step, _ in history) else []
    return ["database", RELAYS[0], *second, "broker"]


def _turns(history: History) -> Iterator[tuple[Party, str]]:
    """What each party does in one go."""
    steps = list(_without_questions([step for step, _ in history]))
    while steps:
        party = steps[0].party
        count = next((n for n, step in enumerate(steps) if step.party != party), len(steps))
        yield party, "; ".join(_words(step) for step in steps[:count])
        del steps[:count]


def _without_questions(steps: Sequence[Step]) -> Iterator[Step]:
    """A read that returns at once, with all that it saw, is told as one step."""
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        asked = step.does.startswith("asks for rows") and following is not None
        if not (asked and following and following.does == "reads" and following.what == step.what):
            yield step


def _words(step: Step) -> str:
    text = step.does.removeprefix("!")
    text = text if step.what is None else f"{text} {_messages(step.what)}"
    return f"*{text}*" if step.does.startswith("!") else text


def _messages(batch: Batch) -> str:
    return ", ".join(_message(row) for row in batch) or "none"


def _message(row: Row) -> str:
    return f"m{row.message}" if row.position == row.message else f"m{row.message} at position {row.position}"


def _table(heads: Sequence[str]) -> Iterator[str]:
    yield _row(heads)
    yield "|" + "---|" * len(heads)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    """Write the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(written(text), encoding="utf-8")
    print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
