"""The rules for the plug-in of the other SQL databases, on a PostgreSQL.

There the statements for CockroachDB run, which PostgreSQL understands, and with them everything of the plug-in that is
no statement. What is special to CockroachDB, and the texts for Oracle and SQL Server, are not run by this.
"""

import pytest

from fencepost.testing.elections import ElectionRules
from fencepost.testing.elections.terms import TermRules
from fencepost.testing.places import OutboxPlace
from fencepost.testing.sources import SourceRules
from fencepost.testing.sources.content import ContentRules
from fencepost.testing.sources.failing import FailingRules
from fencepost.testing.sources.parking import ParkingRules
from fencepost.testing.sources.reserving import ReservingRules
from fencepost.testing.sources.sessions import SessionRules


def as_cockroachdb(url: str) -> str:
    return f"cockroachdb://{url.partition('://')[2]}"


class OnPostgresql:
    database = election = "cockroachdb"
    writer_module: str | None = "tests.rules.other_sql_writer"

    @pytest.fixture
    def database_url(self, rules_database: str) -> str:
        return as_cockroachdb(rules_database)

    @pytest.fixture
    def election_url(self, rules_database: str) -> str:
        return as_cockroachdb(rules_database)


class TestSource(OnPostgresql, ContentRules, ReservingRules, FailingRules, ParkingRules, SessionRules):
    """Those in which the plug-in does what no other one does."""

    @pytest.mark.long
    async def test_held_takes_thousands_of_ranges(self, place: OutboxPlace) -> None:
        await super().test_held_takes_thousands_of_ranges(place)


class TestLeases(OnPostgresql, TermRules):
    """The same of lease stores."""


@pytest.mark.long
class TestEverySourceRule(OnPostgresql, SourceRules):
    """All of them."""


@pytest.mark.long
class TestEveryLeaseRule(OnPostgresql, ElectionRules):
    """All of them."""
