"""What the handoffs of several brokers share: when one is void, and how long a batch may take."""

from __future__ import annotations

import asyncio

import pytest

from fencepost import plugins
from fencepost.errors import ConfigurationError, ConnectionLost, Unavailable
from fencepost.handoffs import Progress, Validity, publish_s
from fencepost.ports import BrokerOptions, Lane


def validity() -> Validity:
    return Validity(Lane("orders"))


def break_off() -> None:
    raise Unavailable("gone")


def test_a_publish_that_went_well_leaves_a_handoff_valid() -> None:
    made = validity()
    with made.publishing():
        assert made.is_void, "until it is known what became of it"
    assert not made.is_void


def test_after_an_error_a_handoff_is_over() -> None:
    made = validity()
    with pytest.raises(Unavailable), made.publishing(Progress()):
        break_off()
    with pytest.raises(ConnectionLost, match="is over"), made.publishing():
        pytest.fail("nothing may be sent")


def test_what_broke_off_a_part_is_told_by_the_next_call() -> None:
    made, progress = validity(), Progress()
    with made.publishing(progress):
        progress.published.add(1)
        break_off()
    with pytest.raises(Unavailable, match="gone"), made.publishing():
        pytest.fail("nothing may be sent")


def test_an_error_is_raised_at_once_where_no_part_can_stand_for_itself() -> None:
    with pytest.raises(Unavailable, match="gone"), validity().publishing():
        break_off()


def test_a_cancelled_publish_ends_a_handoff() -> None:
    made = validity()
    with pytest.raises(asyncio.CancelledError), made.publishing(Progress()):
        raise asyncio.CancelledError
    with pytest.raises(ConnectionLost, match="is over"), made.publishing():
        pytest.fail("nothing may be sent")


def test_a_handoff_that_was_closed_publishes_nothing() -> None:
    made = validity()
    made.end()
    with pytest.raises(ConnectionLost, match="take over again"), made.publishing():
        pytest.fail("nothing may be sent")


@pytest.mark.parametrize(
    ("timeout_s", "own_s", "found_s"), [(None, None, 1.5), (2.0, None, 1.5), (8.0, None, 6.0), (8.0, 7.0, 7.0)]
)
def test_a_batch_ends_before_the_relay_would_cut_it_off(
    timeout_s: float | None, own_s: float | None, found_s: float
) -> None:
    assert publish_s(own_s, BrokerOptions(url="", source="/s", publish_timeout_s=timeout_s)) == found_s


@pytest.mark.parametrize("url", ["http://x/", "mqtt://x", "sqs://eu-west-1/", "sns://eu-west-1/"])
def test_a_batch_that_would_be_cut_off_is_refused_at_the_start(url: str) -> None:
    settings = {"publish_s": 2.0}
    module = plugins.load("broker", url.partition(":")[0])
    module.broker(BrokerOptions(url=url, source="/s", settings=settings))
    with pytest.raises(ConfigurationError, match="ttl_s higher"):
        module.broker(BrokerOptions(url=url, source="/s", settings=settings, publish_timeout_s=2.0))
