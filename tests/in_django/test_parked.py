"""Retrying and discarding parked messages."""

from __future__ import annotations

import json

import pytest
from django.db import transaction

from fencepost.django import outbox, parked
from fencepost.errors import SchemaMissing
from tests.in_django.conftest import Database
from tests.in_django.parking import park


def test_a_retried_message_goes_to_the_end_of_its_key_and_is_marked(default: Database) -> None:
    first, second = park(default, ("orders", "a", "1"), ("orders", "b", "1"))
    with transaction.atomic():
        outbox.add("orders", "c", key="1")
    assert parked.retry([second, first]) == [second, first]
    assert default.rows() == [("1", 3, '"c"'), ("1", 4, '"b"'), ("1", 5, '"a"')]
    assert default.rows("id", "parked") == []
    headers = [text and json.loads(text) for (text,) in default.rows("headers")]
    marked = {"trace": "s3cret", "fencepost-retried": "1"}
    assert headers == [None, marked, marked]
    assert default.rows("attempts, state, last_error")[1:] == [(0, 0, None)] * 2


def test_versions_of_an_application_can_be_kept(default: Database) -> None:
    (one,) = park(default, ("orders", "a", "1"))
    assert parked.retry([one], keep_versions=True) == [one]
    with transaction.atomic():
        outbox.add("orders", "b", key="1", version=2)
    assert default.rows() == [("1", 1, '"a"'), ("1", 2, '"b"')]


def test_what_is_not_parked_is_left_alone(default: Database) -> None:
    (one,) = park(default, ("orders", "a", "1"))
    nobody = "00000000-0000-0000-0000-000000000001"
    assert parked.retry([nobody, one, one]) == [one]
    assert parked.retry([one]) == []
    assert parked.discard([one, nobody]) == []
    assert len(default.rows()) == 1


def test_a_discarded_message_is_gone(default: Database) -> None:
    one, two = park(default, ("orders", "a", "1"), ("orders", "b", None))
    assert parked.discard([two]) == [two]
    assert [str(row[0]) for row in default.rows("id", "parked")] == [one]
    assert default.rows() == []


def test_in_another_database(default: Database, other: Database) -> None:
    (one,) = park(other, ("orders", "a", "1"))
    assert parked.retry([one]) == []
    assert parked.retry([one], using="other") == [one]
    assert len(other.rows()) == 1


def test_without_tables(tmp_path: object) -> None:
    with pytest.raises(SchemaMissing, match="fencepost_parked"):
        parked.retry(["00000000-0000-0000-0000-000000000001"])
