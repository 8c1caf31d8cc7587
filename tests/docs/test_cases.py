"""The page of cases: every case is there, and every test that it names exists and says the case's number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.pages import TREE, table_rows

PAGE = TREE / "docs" / "cases.md"
CASES = (
    *(f"A{n}" for n in range(1, 16)),
    *(f"B{n}" for n in range(1, 11)),
    *(f"C{n}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12)),
    *(f"D{n}" for n in range(1, 14)),
)
_TEST = re.compile(r"`((?:tests|src/fencepost/testing)/[\w/]+\.py)::(\w+)`")


def rows() -> dict[str, list[str]]:
    """The cells of each case."""
    found = [row for letter in "ABCD" for row in table_rows(PAGE, letter)]
    return {row[0]: row[1:] for row in found}


@cache
def found_in(file: str) -> dict[str, str]:
    """Every test of a file: its name, and what is written under it."""
    tree = ast.parse((TREE / file).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {f.name: ast.get_docstring(f) or "" for f in functions if f.name.startswith("test_")}


def named(cell: str) -> Iterator[tuple[str, str]]:
    for match in _TEST.finditer(cell):
        yield match[1], match[2]


def says(case: str, name: str, text: str) -> bool:
    """Whether a test says a case's number: _a1_ in its name, or A1 in its words."""
    return f"_{case.lower()}_" in f"{name}_" or re.search(rf"\b{case}\b", text) is not None


def test_every_case_is_on_the_page_once_in_order() -> None:
    assert tuple(rows()) == CASES
    assert all(len(row) == 3 and all(row) for row in rows().values())


@pytest.mark.parametrize("case", CASES)
def test_what_keeps_a_case_exists_and_says_its_number(case: str) -> None:
    tests = list(named(rows()[case][2]))
    assert tests, f"nothing keeps {case}"
    for file, name in tests:
        assert name in found_in(file), f"{file} has no {name}"
        assert says(case, name, found_in(file)[name]), f"{name} does not say {case}"


def test_a_number_is_not_part_of_another() -> None:
    assert says("A1", "test_a1_x", "")
    assert says("A1", "test_x", "A1, A3")
    assert not says("A1", "test_a10_x", "A15")
