"""The documentation's pages, and what of them can be run.

The words after a fence's language say what a block is for; they are not shown to readers:

* ``python run``: executed, together with the page's other blocks of this kind, in order and in one namespace.
* ``python run postgresql``: the same, where a PostgreSQL is there; its address is in the variable DATABASE_URL.
* ``python run mariadb``: the same, where a MariaDB is there; its address is in the variable MARIADB_URL.
* ``python run redis``: the same, where a Redis is there; its address is in the variable REDIS_URL.
* ``python run mongodb``: the same, where a MongoDB with transactions is there; its address is in MONGODB_URL.
* ``text output``: what the last block before it has printed.
* any other word: looked for by a test of that page, by that word.

A block that is awaited at the top level stands for the inside of a coroutine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
PAGES = (TREE / "README.md", *sorted((TREE / "docs").glob("*.md")))

_FENCE = re.compile(r"^ {0,3}```(\w*)[ \t]*([^\n`]*)\n(.*?)^ {0,3}```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. ``line`` is where its text begins, counted from 1."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], tuple(match[2].split()), match[3], text.count("\n", 0, match.start(3)) + 1)
        for match in _FENCE.finditer(text)
    ]


def the_block(page: Path, *words: str) -> Block:
    """The only block of a page with these words."""
    found = [block for block in blocks(page) if set(words) <= {block.language, *block.words}]
    assert len(found) == 1, f"{page.name} has {len(found)} blocks {words}"
    return found[0]


def is_run(block: Block) -> bool:
    """True for what is executed."""
    return block.language == "python" and "run" in block.words


SERVERS = {"postgresql": "DATABASE_URL", "mariadb": "MARIADB_URL", "redis": "REDIS_URL", "mongodb": "MONGODB_URL"}
"""The servers that a block may need, and the variable that says where each is."""


def needed(block: Block) -> str | None:
    """The variable without which the block is not executed."""
    return next((variable for server, variable in SERVERS.items() if server in block.words), None)


def table_rows(page: Path, first_heading: str) -> list[list[str]]:
    """The cells of the page's only table whose first heading is this, without the headings."""
    lines = page.read_text(encoding="utf-8").splitlines()
    heads = [n for n, line in enumerate(lines) if line.startswith("|") and _cells(line)[0] == first_heading]
    assert len(heads) == 1, f"{page.name} has {len(heads)} tables that begin with {first_heading!r}"
    rows = []
    for line in lines[heads[0] + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(_cells(line))
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def names_in(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)
