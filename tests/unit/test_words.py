"""How numbers are said, and which name was meant."""

import pytest

from fencepost.words import as_written, counted, suggestion


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (0, "message", "0 messages"),
        (1, "message", "1 message"),
        (2, "message", "2 messages"),
        (12_345, "receipt", "12,345 receipts"),
        (1, "batch", "1 batch"),
        (3, "batch", "3 batches"),
    ],
)
def test_a_number_and_its_noun(number: int, noun: str, said: str) -> None:
    assert counted(number, noun) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (True, "true"),
        (10**20, "100000000000000000000"),
        ("a", "'a'"),
        (["a", False], "['a', false]"),
        ({"a": 1}, "{a = 1}"),
    ],
)
def test_a_value_is_repeated_as_it_was_written(value: object, said: str) -> None:
    assert as_written(value) == said


def test_the_nearest_name_is_suggested() -> None:
    assert suggestion("Strem ", ["stream", "batch"]) == "did you mean 'stream'? known are batch, stream"
    assert suggestion("x", ["stream", "batch"]) == "known are batch, stream"
