"""The model of the handoff: as designed it breaks nothing, and each rule is needed."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.model.handoff import Handoff
from tests.model.lanes import LaneRules
from tests.model.rules import Rules, Scope
from tests.model.search import STUCK
from tests.model.table import (
    LANE_RULES,
    LANE_SEARCHES,
    LONGER_LANE_SEARCHES,
    LONGER_SEARCHES,
    RULES,
    SEARCHES,
    Rule,
    Search,
    found,
)

STEPS = {
    *("an open transaction adds", "committed:", "!rolled back:"),
    *("!its copy stops following", "!falls back to its copy, with the rows"),
    *("takes over: fences", "reads the receipts:", "settles what the receipts name:", "connects again"),
    *("asks for rows, and will get", "reads", "publishes", "hears that the broker has", "settles"),
    *("has waited", "leaves out", "finds a row below, and begins at the bottom"),
    *("!crashes", "!gets no answer", "!loses its session"),
    *("takes", "!does not take", "!takes the late request:", "!restarts"),
    "refuses, since its sender is fenced:",
}

LANE_STEPS = {
    *("committed:", "!its copy stops following", "!falls back to its copy, with the rows"),
    *("takes over the old lane: fences", "takes over the old lane for lane 0: fences"),
    *("takes over the old lane for lane 1: fences", "seals the old lane", "goes on", "sees the seal and leaves"),
    "refuses the seal, since its sender is fenced",
    *("reads the old lane's receipts:", "settles what they name:", "reads the receipts:", "connects again"),
    *("takes over lane 0: fences", "takes over lane 1: fences"),
    *("reads", "publishes", "takes", "settles", "crashes, or leaves"),
    "refuses, since its sender is fenced:",
}


@pytest.mark.parametrize("search", [*SEARCHES, *LANE_SEARCHES], ids=lambda search: search.says)
def test_as_designed_nothing_is_lost_repeated_or_out_of_order(search: Search) -> None:
    """A1, A3, A5, A10, A15, B1, B7, C1: in every order of the steps of all parties."""
    result = found(search.model)
    assert result.histories == {}
    assert result.states >= search.states_min


@pytest.mark.long
@pytest.mark.parametrize("search", [*LONGER_SEARCHES, *LONGER_LANE_SEARCHES], ids=lambda search: search.says)
def test_more_of_the_world(search: Search) -> None:
    test_as_designed_nothing_is_lost_repeated_or_out_of_order(search)


def test_every_step_occurs() -> None:
    """A step that is never taken would make the search say more than it looked at."""
    assert frozenset().union(*[found(search.model).names for search in SEARCHES]) == STEPS
    assert frozenset().union(*[found(search.model).names for search in LANE_SEARCHES]) == LANE_STEPS


@pytest.mark.parametrize("rule", [*RULES, *LANE_RULES], ids=lambda rule: rule.name)
def test_without_the_rule_a_promise_is_broken(rule: Rule) -> None:
    """By its shortest history: docs/model.md shows it, and a test keeps that page as the search writes it."""
    model = rule.taken_away()
    history = found(model, stop=rule.breaks != STUCK).histories[rule.breaks]
    *before, last = [state for _, state in history]
    assert not [state for state in before if model.violation(state)]
    assert model.violation(last) == (None if rule.breaks == STUCK else rule.breaks)


@pytest.mark.parametrize("rule", [*RULES, *LANE_RULES], ids=lambda rule: rule.name)
def test_with_the_rule_the_same_part_of_the_world_is_sound(rule: Rule) -> None:
    result = found(rule.model)
    assert result.histories == {}
    assert result.states > 50


def test_every_rule_is_told() -> None:
    assert {rule.name for rule in RULES} == {field.name for field in fields(Rules)} - {"reserve"}
    assert [rule.name for rule in LANE_RULES] == [field.name for field in fields(LaneRules)]


def test_reserving_positions_is_not_needed_for_the_promises() -> None:
    """It keeps digests of 4 bytes from meeting; here ids are compared whole."""
    model = Handoff(Scope(relays=1, messages=3, forgets=3))
    as_designed, without = found(model), found(model.without("reserve"))
    assert without.histories == {}
    assert without.states > 3_000
    assert without.states != as_designed.states


def test_two_and_a_forgotten_batch_need_three_receipts() -> None:
    """One batch whose settle was forgotten, and two that are published before a lost session is noticed."""
    model = Handoff(Scope(relays=1, messages=3, forgets=1, kept=3))
    assert found(model).histories == {}
    assert found(model.without("enough_receipts")).histories.keys() == {"repeated"}
