"""Two processes and one lease, every order of their statements: one current term, whose token is the largest."""

from __future__ import annotations

from typing import Any, cast

import pytest
import sqlalchemy as sa

from fencepost.ports import Term
from fencepost.sql.lease import LeaseStatements, later, now
from fencepost.testing.interleave import Check, History, Party, Report, Side
from tests.interleavings.leasing import LONG_S, Candidates, Race, candidates
from tests.interleavings.place import Place


def acquire(side: Side) -> Party[Race]:
    return lambda race: race.stores[side].acquire(race.name, side, LONG_S)


async def renew(race: Race) -> bool:
    """The left one's, of the term that was there before."""
    assert race.term is not None
    return await race.stores["L"].renew(race.term, LONG_S)


async def release(race: Race) -> None:
    """The same term, given up by the right one's connection: the process has two."""
    assert race.term is not None
    await race.stores["R"].release(race.term)


async def release_late(race: Race) -> None:
    """The left one gives up what it may have lost."""
    assert race.term is not None
    await race.stores["L"].release(race.term)


async def one_winner(race: Race, history: History) -> None:
    """One has it, under the next token; the other one has nothing, and what it held before is over."""
    terms = [outcome.result for outcome in (history.left, history.right) if isinstance(outcome.result, Term)]
    assert len(terms) == 1
    (term,) = terms
    assert term.token == (race.term.token if race.term else 0) + 1
    await leads(race, term)


async def leads(race: Race, term: Term) -> None:
    """The store says so; his renewal is taken, that of the term before is not."""
    if race.term is not None and race.term != term:
        assert not await race.stores["L"].renew(race.term, LONG_S)
    holder = await race.stores["L"].holder(race.name)
    assert holder is not None
    assert (holder.owner, holder.token) == (term.owner, term.token)
    assert await race.stores["L" if term.owner == "L" else "R"].renew(term, LONG_S)


async def run(
    between: Candidates, left: Party[Race], right: Party[Race], check: Check[Race], fresh: Any, *, alike: bool = False
) -> Report:
    return await between.place.run(left, right, check, fresh=fresh, waits=between.waits, alike=alike)


async def test_two_that_come_first(place: Place) -> None:
    """F4, F5: nobody has had the lease yet, its row is made by one of them, and neither meets an error."""
    async with candidates(place, evidence=False) as two:
        report = await run(two, acquire("L"), acquire("R"), one_winner, two.new, alike=True)
    assert report.waited > 0
    assert {type(history.left.result) for history in report.histories} == {Term, type(None)}  # either may win


async def test_two_for_a_lease_that_has_ended(place: Place) -> None:
    """F5"""
    async with candidates(place, evidence=False) as two:
        report = await run(two, acquire("L"), acquire("R"), one_winner, two.expired, alike=True)
    assert {type(history.left.result) for history in report.histories} == {Term, type(None)}


async def test_a_late_renewal_of_a_lease_that_another_one_takes(place: Place) -> None:
    """F1: whoever comes first has it, and the other one is told."""
    async with candidates(place) as two:
        report = await run(two, renew, acquire("R"), either, two.expired)
    assert {history.left.result for history in report.histories} == {True, False}


async def either(race: Race, history: History) -> None:
    """Renewed, or taken: never both, and not neither."""
    renewed, term = history.left.result, history.right.result
    assert renewed is (term is None)
    if isinstance(term, Term):
        assert race.term is not None
        assert term.token == race.term.token + 1
    await leads(race, term if isinstance(term, Term) else cast("Term", race.term))


async def test_a_release_and_a_renewal(place: Place) -> None:
    """What was given up stays given up, whatever was on its way."""
    async with candidates(place) as two:
        report = await run(two, renew, release, given_up, two.held)
    assert {history.left.result for history in report.histories} == {True, False}


async def given_up(race: Race, _: History) -> None:
    assert await race.stores["L"].holder(race.name) is None
    assert not await renew(race)


async def test_a_late_release_of_a_lease_that_another_one_takes(place: Place) -> None:
    """F1: it ends the old term and no other one."""
    async with candidates(place, evidence=False) as two:
        await run(two, release_late, acquire("R"), taken, two.expired)


async def taken(race: Race, history: History) -> None:
    term = history.right.result
    assert isinstance(term, Term)
    assert race.term is not None
    assert term.token == race.term.token + 1
    await leads(race, term)


# ------------------------------------------------------------------------------------------------------ planted faults


class Careless(LeaseStatements):
    """The name of a lease is enough: owner and token are not looked at where ``careless`` names the statement."""

    def __init__(self, right: LeaseStatements, dialect: str, *careless: str) -> None:
        super().__init__(right.table, dialect)
        c, until = right.table.c, later(sa.bindparam("ttl_s", type_=sa.Float()))
        owner, token = sa.bindparam("owner_", type_=c.owner.type), sa.bindparam("token_", type_=c.token.type)
        session = sa.bindparam("session_", type_=c.session.type)
        looked_at = sa.or_(sa.and_(c.owner == owner, c.token == token), sa.literal_column("1 = 1"))
        anybody = sa.update(right.table).where(c.name == sa.bindparam("name_"))
        if "renew" in careless:
            self.renew = anybody.where(looked_at).values(expires_at=until, session=session)
        if "release" in careless:
            self.release = anybody.where(looked_at).values(owner=None, expires_at=now(), session=sa.false())
        if "take" in careless:
            taken = {"owner": owner, "token": c.token + 1, "acquired_at": now(), "expires_at": until}
            self.take = anybody.where(sa.or_(c.token == token, sa.literal_column("1 = 1"))).values(taken)


def plant(two: Candidates, *careless: str) -> None:
    for store in two.stores.values():
        store._say = Careless(store._say, store._database.engine.dialect.name, *careless)


async def test_a_renewal_without_a_token_is_caught(place: Place) -> None:
    async with candidates(place) as two:
        plant(two, "renew")
        with pytest.raises(AssertionError):
            await run(two, renew, acquire("R"), either, two.expired)


async def test_a_release_without_a_token_is_caught(place: Place) -> None:
    async with candidates(place, evidence=False) as two:
        plant(two, "release")
        with pytest.raises(AssertionError):
            await run(two, release_late, acquire("R"), taken, two.expired)


async def test_a_lease_that_is_read_before_it_is_written_is_caught(server_place: Place) -> None:
    """No lock, and no token in what is written: two lead. (SQLite's BEGIN IMMEDIATE hides it.)"""
    async with candidates(server_place, evidence=False) as two:
        plant(two, "take")
        for store in two.stores.values():
            store._say.lock = store._say.read
        with pytest.raises(AssertionError, match="assert 2 == 1"):
            await run(two, acquire("L"), acquire("R"), one_winner, two.expired)
