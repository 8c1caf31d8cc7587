"""Campaigning and keeping a term, on a clock that the test moves and a store in memory."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from fencepost.elections import memory
from fencepost.errors import AccessDenied, ConfigurationError, Unavailable
from fencepost.events import CircuitClosed, CircuitOpened, Event, LeaseAcquired, LeaseEnded, RelayFailed, StandingBy
from fencepost.leases import Leadership, Tenure
from fencepost.ports import LeaseOptions
from tests.leases.places import fresh
from tests.leases.virtual_clock import VirtualClock, settle

NAME = "orders.0"
TTL_S = 6.0
MARGIN_S = 0.6


class Stage:
    """A place for leases, and relays that campaign there."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.url = f"memory://{fresh()}"
        self.leases = memory.leases(self.url, clock=self.clock)
        self.events: list[Event] = []
        self.tenures: list[Tenure] = []
        self.stores: list[memory.MemoryLeaseStore] = []

    def store(self) -> memory.MemoryLeaseStore:
        self.stores.append(memory.lease_store(LeaseOptions(url=self.url, clock=self.clock)))
        return self.stores[-1]

    def observe(self, event: Event) -> None:
        self.events.append(event)

    def leadership(self, owner: str, store: memory.MemoryLeaseStore | None = None) -> Leadership:
        return Leadership(store or self.store(), NAME, owner, TTL_S, clock=self.clock, observer=self.observe)

    async def leader(self, owner: str = "one", store: memory.MemoryLeaseStore | None = None) -> Tenure:
        return self.kept(await self.leadership(owner, store).campaign())

    def kept(self, tenure: Tenure) -> Tenure:
        self.tenures.append(tenure)
        return tenure

    def ended(self) -> list[str]:
        return [e.reason for e in self.events if isinstance(e, LeaseEnded)]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    stage.leases.gate.latency_s = 0.0
    stage.leases.gate.resume()
    for store in stage.stores:
        store.heal()
    for tenure in stage.tenures:
        await tenure.release()
    memory.forget(stage.url)


async def test_a_leader_is_trusted_from_the_start_of_its_attempt(stage: Stage) -> None:
    stage.leases.gate.latency_s = 1.0
    campaign = asyncio.ensure_future(stage.leadership("one").campaign())
    await stage.clock.advance(1.0)
    tenure = stage.kept(await campaign)
    assert tenure.trusted_for_s() == pytest.approx(TTL_S - MARGIN_S - 1.0)
    assert stage.events == [LeaseAcquired(lane=NAME, owner="one", token=1, early=False)]


async def test_a_leader_keeps_its_lease(stage: Stage) -> None:
    tenure = await stage.leader()
    for _ in range(100):
        await stage.clock.advance(1.0)
        assert tenure.trusted_for_s() > TTL_S - MARGIN_S - TTL_S / 3 - 0.1
    assert not tenure.lost.is_set()
    assert stage.leases.holder(NAME) is not None


async def test_trust_ends_before_the_lease_where_the_store_is_cut_off_and_heals(stage: Stage) -> None:
    """F6, A9: by its own monotonic clock; that the store can be reached again does not bring the term back."""
    store = stage.store()
    tenure = await stage.leader(store=store)
    await stage.clock.advance(1.0)
    store.cut_off()
    await stage.clock.advance(TTL_S - MARGIN_S - 1.0 - 0.01)
    assert tenure.trusted_for_s() > 0
    assert not tenure.lost.is_set()
    await stage.clock.advance(0.02)
    assert tenure.trusted_for_s() <= 0
    assert tenure.lost.is_set()
    holder = stage.leases.holder(NAME)
    assert holder is not None
    assert holder.remaining_s > 0.5
    store.heal()
    await stage.clock.advance(2 * TTL_S)
    assert tenure.lost.is_set()
    assert tenure.trusted_for_s() <= 0
    assert stage.ended() == ["trust ended"]


async def test_a_short_cut_is_survived(stage: Stage) -> None:
    store = stage.store()
    tenure = await stage.leader(store=store)
    stage.leases.gate.fail_next(3, Unavailable("down"), call="renew")
    await stage.clock.advance(TTL_S)
    assert not tenure.lost.is_set()
    assert tenure.trusted_for_s() > 0
    assert tenure.failure is None


async def test_a_lost_answer_costs_nothing(stage: Stage) -> None:
    tenure = await stage.leader()
    stage.leases.gate.lose_answers(2, call="renew")
    await stage.clock.advance(2 * TTL_S)
    assert not tenure.lost.is_set()


async def test_a_lease_that_was_taken_is_lost_at_once(stage: Stage) -> None:
    """F1."""
    tenure = await stage.leader()
    await stage.clock.advance(1.0)
    stage.leases.steal(NAME, "thief", TTL_S)
    await stage.clock.advance(0.2)
    assert tenure.lost.is_set()
    assert tenure.trusted_for_s() <= 0
    assert stage.ended() == ["lost"]
    await tenure.release()
    holder = stage.leases.holder(NAME)
    assert holder is not None
    assert holder.owner == "thief"
    assert stage.ended() == ["lost"]


async def test_a_process_that_was_paused_stops_in_the_next_turn(stage: Stage) -> None:
    """A10: while it slept nobody told it anything. It does not even ask whether it may go on."""
    tenure = await stage.leader()
    await stage.clock.advance(1.0)
    stage.clock.jump(3 * TTL_S)
    assert tenure.trusted_for_s() < 0
    stage.leases.gate.fail_next(1, AccessDenied("nobody should have asked"), call="renew")
    await stage.clock.advance(0)
    assert tenure.lost.is_set()
    assert tenure.failure is None
    assert stage.ended() == ["trust ended"]


async def test_a_late_answer_does_not_bring_a_term_back(stage: Stage) -> None:
    tenure = await stage.leader()
    await stage.clock.advance(1.9)
    stage.leases.gate.pause()
    await stage.clock.advance(TTL_S - MARGIN_S - 1.9)
    assert tenure.lost.is_set()
    stage.leases.gate.resume()
    await stage.clock.advance(0.5)
    assert tenure.lost.is_set()
    assert tenure.trusted_for_s() <= 0


async def test_a_release_hands_over_at_once_and_only_once(stage: Stage) -> None:
    """F9: nobody but the owner calls it; D11."""
    tenure = await stage.leader()
    standby = asyncio.ensure_future(stage.leadership("two").campaign())
    await stage.clock.advance(1.0)
    assert not standby.done()
    await tenure.release()
    await stage.clock.advance(0.1)
    next_tenure = stage.kept(await standby)
    assert next_tenure.term.token == 2
    await tenure.release()
    assert not next_tenure.lost.is_set()
    assert tenure.trusted_for_s() <= 0
    assert stage.ended() == ["released"]


async def test_the_lease_is_kept_until_its_owner_has_finished(stage: Stage) -> None:
    """F9: as a context manager, it is released after the last statement of the work."""
    standby = None
    async with await stage.leader() as tenure:
        standby = asyncio.ensure_future(stage.leadership("two").campaign())
        await stage.clock.advance(5 * TTL_S)
        assert not standby.done()
        assert not tenure.lost.is_set()
    await stage.clock.advance(0.1)
    stage.kept(await standby)


async def test_a_release_never_raises(stage: Stage) -> None:
    tenure = await stage.leader()
    stage.leases.gate.fail_next(1, Unavailable("down"), call="release")
    await tenure.release()
    assert isinstance(tenure.failure, Unavailable)
    assert stage.ended() == ["released"]


async def test_a_defect_in_the_store_ends_the_term_and_is_told(stage: Stage) -> None:
    """D3: never a silent dead task."""
    tenure = await stage.leader()
    stage.leases.gate.fail_next(1, ZeroDivisionError("a defect"), call="renew")  # type: ignore[arg-type]
    await stage.clock.advance(TTL_S)
    assert tenure.lost.is_set()
    assert isinstance(tenure.failure, ZeroDivisionError)
    told = [e for e in stage.events if isinstance(e, RelayFailed)]
    assert [e.error for e in told] == [tenure.failure]
    assert stage.ended() == ["lost"]


async def test_what_a_person_must_change_ends_the_term(stage: Stage) -> None:
    tenure = await stage.leader()
    stage.leases.gate.fail_next(1, AccessDenied("no more"), call="renew")
    await stage.clock.advance(TTL_S / 2)
    assert tenure.lost.is_set()
    assert isinstance(tenure.failure, AccessDenied)


async def test_a_standby_says_once_for_whom_it_stands_by(stage: Stage) -> None:
    first = await stage.leader()
    standby = asyncio.ensure_future(stage.leadership("two").campaign())
    await stage.clock.advance(300.0)
    stage.leases.steal(NAME, "thief", 400.0)
    await stage.clock.advance(300.0)
    assert first.lost.is_set()
    assert [e for e in stage.events if isinstance(e, StandingBy)] == [
        StandingBy(lane=NAME, owner="one"),
        StandingBy(lane=NAME, owner="thief"),
    ]
    await stage.clock.advance(101.0)
    assert stage.kept(await standby).term.token == 3


async def test_a_standby_is_there_when_the_lease_ends(stage: Stage) -> None:
    store = stage.store()
    tenure = await stage.leader(store=store)
    standby = asyncio.ensure_future(stage.leadership("two").campaign())
    await stage.clock.advance(10.0)
    store.cut_off()
    await stage.clock.advance(TTL_S + 0.1)
    next_tenure = stage.kept(await standby)
    assert tenure.lost.is_set()
    assert not next_tenure.term.early


async def test_a_killed_owner_is_replaced_early(stage: Stage) -> None:
    store = stage.store()
    await stage.leader(store=store)
    standby = asyncio.ensure_future(stage.leadership("two").campaign())
    await stage.clock.advance(1.0)
    await store.close()
    await stage.clock.advance(0.2)
    assert stage.kept(await standby).term.early
    assert LeaseAcquired(lane=NAME, owner="two", token=2, early=True) in stage.events


async def test_a_campaign_waits_for_faults_that_pass_and_says_so(stage: Stage) -> None:
    stage.leases.gate.fail_next(5, Unavailable("down"))
    campaign = asyncio.ensure_future(stage.leadership("one").campaign())
    await stage.clock.advance(20.0)
    stage.kept(await campaign)
    opened = [e for e in stage.events if isinstance(e, CircuitOpened)]
    assert [e.failures for e in opened] == [1, 2, 3, 4, 5]
    assert all(0.05 <= e.delay_s <= 2.0 for e in opened)
    assert [type(e) for e in stage.events[-2:]] == [CircuitClosed, LeaseAcquired]


async def test_a_campaign_raises_what_a_person_must_change(stage: Stage) -> None:
    stage.leases.gate.fail_next(1, AccessDenied("no"))
    with pytest.raises(AccessDenied):
        await stage.leader()


async def test_a_lease_that_takes_longer_to_get_than_it_lasts_is_given_back(stage: Stage) -> None:
    stage.leases.gate.latency_s = TTL_S
    campaign = asyncio.ensure_future(stage.leadership("one").campaign())
    await stage.clock.advance(30.0)
    assert not campaign.done()
    assert any(isinstance(e, CircuitOpened) and "6.0 s of a lease of 6 s" in e.cause for e in stage.events)
    campaign.cancel()
    await asyncio.gather(campaign, return_exceptions=True)


async def test_a_campaign_that_is_given_up_leaves_nothing_running(stage: Stage) -> None:
    stage.leases.steal(NAME, "somebody", 100 * TTL_S)
    standby = asyncio.ensure_future(stage.leadership("two").campaign())
    await stage.clock.advance(3.0)
    assert len(asyncio.all_tasks()) > 1
    standby.cancel()
    await asyncio.gather(standby, return_exceptions=True)
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_tenure_that_ended_leaves_nothing_running(stage: Stage) -> None:
    tenure = await stage.leader()
    await stage.clock.advance(3.0)
    await tenure.release()
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(
    ("name", "owner", "ttl_s", "margin_s"),
    [
        ("", "one", 5.0, None),
        ("n" * 256, "one", 5.0, None),
        ("n", "", 5.0, None),
        ("n", "o", 0.0, None),
        ("n", "o", 1.0, 0.6),
    ],
)
def test_what_cannot_work_is_refused(name: str, owner: str, ttl_s: float, margin_s: float | None) -> None:
    stage = Stage()
    with pytest.raises(ConfigurationError):
        Leadership(stage.store(), name, owner, ttl_s, margin_s=margin_s)
    memory.forget(stage.url)
