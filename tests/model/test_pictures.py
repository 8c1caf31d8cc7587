"""The page about the model is what the model says."""

from __future__ import annotations

import pytest

from tests.model.pictures import PAGE, written
from tests.model.table import LANE_RULES, RULES


def test_the_page_is_as_the_command_writes_it() -> None:
    """`python -m tests.model.pictures` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    assert text == written(text)
    assert text.count("### Without: ") == len(RULES) + len(LANE_RULES)


@pytest.mark.parametrize(("old", "new"), [("m1 is published twice", "m1 is published once"), ("11,564", "11,563")])
def test_another_page_is_noticed(old: str, new: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    changed = text.replace(old, new, 1)
    assert changed != text
    assert written(changed) == text


def test_a_page_without_its_parts_is_an_error() -> None:
    with pytest.raises(ValueError, match="no part handoff"):
        written("# The model\n")
