"""The rules of sources for tables of somebody else, as far as such a table goes. H5."""

from dataclasses import replace
from typing import Any

import pytest

from fencepost.testing.sources.failing import FailingRules
from fencepost.testing.sources.lanes import LaneRules
from fencepost.testing.sources.parking import ParkingRules
from fencepost.testing.sources.reading import ReadingRules
from fencepost.testing.sources.settling import SettlingRules
from fencepost.testing.writers.existing import ROUTED, STATED

NOT_HAD: Any = None
"""A rule of what existing tables do not have; instead of it something is refused, or told at the start."""


class RoutedRules(ReadingRules, LaneRules, SettlingRules):
    """The form that Debezium's outbox router reads, with one column more for the order; settled by deletion."""

    table = ROUTED
    writer_module = "fencepost.testing.writers.existing"
    test_two_outboxes_of_one_database_do_not_mix = NOT_HAD  # the name of the table is the application's affair
    test_what_is_in_doubt_or_delayed_can_be_settled = NOT_HAD  # neither of them
    test_messages_of_one_key_are_in_one_lane_in_order = NOT_HAD  # it looks at versions


class StatedRules(SettlingRules, FailingRules, ParkingRules):
    """A table with a state; settled by another value of it."""

    table = STATED
    settle = "mark"
    writer_module = "fencepost.testing.writers.existing"
    test_what_is_in_doubt_or_delayed_can_be_settled = NOT_HAD  # no delayed messages
    test_a_parked_message_is_moved_as_it_is = NOT_HAD  # it stays where it is, in another state
    # Nobody keeps when that was; and a retried one waits again where it stands, as it is.
    test_a_parked_message_is_shown_as_it_is_with_its_reason = NOT_HAD
    test_a_filter_knows_when_a_message_was_parked = NOT_HAD
    test_a_retried_message_is_the_last_of_its_key_marked_and_news = NOT_HAD
    test_a_version_is_kept_where_that_is_wanted = NOT_HAD
    test_how_often_it_was_retried_is_counted = NOT_HAD
    test_many_keep_the_order_of_their_keys = NOT_HAD


class TestRoutedInSqlite(RoutedRules):
    database = "sqlite"


class TestStatedInSqlite(StatedRules):
    database = "sqlite"


class TestRoutedInPostgresql(RoutedRules):
    database = "postgresql"

    @pytest.fixture
    def database_url(self, rules_database: str) -> str:
        return rules_database


class TestByTimeInPostgresql(ReadingRules, SettlingRules):
    """A time and the id, written as one text."""

    database = "postgresql"
    table = replace(ROUTED, position="created_at")
    writer_module = "fencepost.testing.writers.existing"
    test_two_outboxes_of_one_database_do_not_mix = NOT_HAD
    test_what_is_in_doubt_or_delayed_can_be_settled = NOT_HAD

    @pytest.fixture
    def database_url(self, rules_database: str) -> str:
        return rules_database


class TestStatedInPostgresql(StatedRules):
    database = "postgresql"

    @pytest.fixture
    def database_url(self, rules_database: str) -> str:
        return rules_database


class TestRoutedInMariadb(RoutedRules):
    database = "mariadb"

    @pytest.fixture
    def database_url(self, mariadb_url: str) -> str:
        return mariadb_url


class TestStatedInMariadb(StatedRules):
    database = "mariadb"

    @pytest.fixture
    def database_url(self, mariadb_url: str) -> str:
        return mariadb_url
