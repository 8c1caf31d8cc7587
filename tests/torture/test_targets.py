"""What a schedule may have in it is what can really be done to the servers; the rest is said."""

from __future__ import annotations

import pytest

from fencepost.demo import databases
from fencepost.testing.torture.network import Route
from fencepost.testing.torture.records import TortureOptions
from fencepost.testing.torture.targets import Routes, Targets, impossible, possible

REACHED: Routes = {"database": Route("db://"), "broker": Route("bus://")}


@pytest.mark.parametrize("ends", [True, False])
def test_sessions_are_ended_where_the_database_can(ends: bool) -> None:
    targets, options = Targets(restart={}), TortureOptions()
    assert possible(REACHED, targets, options, ends_sessions=ends).terminate is ends
    told = [line for line in impossible(REACHED, targets, options, ends_sessions=ends) if "terminate" in line]
    assert len(told) == (0 if ends else 1)


@pytest.mark.parametrize(
    ("url", "ends"),
    [
        ("sqlite:///a.db", False),
        ("postgresql://h/a", True),
        ("mariadb://h/a", True),
        ("redis://h/0", True),
        ("mongodb://h/a", False),
        ("dynamodb://eu-west-1/", False),
    ],
)
async def test_which_databases_can(url: str, ends: bool) -> None:
    database = databases.database(url)
    assert database.ends_sessions is ends
    await database.close()
