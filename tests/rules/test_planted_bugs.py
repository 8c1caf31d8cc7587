"""Planted bugs: each weakening of a plug-in is caught by the rule that is there for it.

The kit runs as it does for a plug-in from elsewhere: from another folder, by ``--pyargs``, against a dotted module.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeVar

import pytest

from fencepost.brokers.memory import MemoryBroker
from fencepost.databases.memory import MemorySession
from fencepost.elections.memory import MemoryLeaseStore
from fencepost.testing import options
from fencepost.testing.readers import memory as memory_reader
from fencepost.testing.writers import memory as memory_writer
from tests.rules import planted_databases as d
from tests.rules import planted_elections as e
from tests.rules.planted_brokers import BROKERS, broker_of

pytest_plugins = "pytester"

T = TypeVar("T")

DATABASES: dict[type[MemorySession], str] = {
    d.SettlesByPositionOnly: "test_another_id_at_the_position_stays",
    d.SettlesByIdOnly: "test_the_id_at_another_position_stays",
    d.CountsWhatItWasAskedToSettle: "test_settling_twice_settles_once",
    d.ReadsAboveTheLastOneItSaw: "test_a_transaction_that_commits_late_is_read",
    d.BelowSeesOneOnly: "test_below_a_position_are_the_positions_that_wait",
    d.SeesOpenTransactions: "test_a_transaction_that_is_open_is_not_read",
    d.IgnoresTheLimit: "test_pending_gives_the_lowest_positions_up_to_the_limit",
    d.IgnoresAfter: "test_after_a_position_only_those_above_it_are_given",
    d.ReadsTheNewestFirst: "test_pending_messages_come_in_the_order_in_which_they_were_added",
    d.ReadsByTime: "test_messages_of_one_second_keep_their_order",
    d.PagesGoAstray: "test_a_backlog_is_published_from_its_oldest_message_on",
    d.KeepsWhatIsDeleted: "test_what_is_deleted_while_it_waits_is_told_and_the_relay_goes_on",
    d.LanesOverlap: "test_every_message_is_in_exactly_one_lane",
    d.PassesPayloadsThroughText: "test_payloads_are_kept_byte_for_byte",
    d.ForgetsTombstones: "test_a_tombstone_is_not_an_empty_payload",
    d.CutsTimesToSeconds: "test_times_are_utc_to_the_microsecond",
    d.HeldForgetsWhatIsDelayed: "test_held_gives_what_is_in_doubt_and_what_is_delayed",
    d.ReservesNothing: "test_reserved_positions_are_not_handed_out",
    d.ReservesBackwards: "test_reserving_what_was_handed_out_changes_nothing",
    d.MarksNothingInDoubt: "test_what_is_in_doubt_says_so_and_is_still_pending",
    d.CountsFailuresOfWholeBatches: "test_a_failure_adds_one_attempt_and_keeps_the_cause",
    d.KeepsWholeErrorTexts: "test_any_error_text_can_be_stored_and_long_ones_are_cut",
    d.ParkLosesTheMessage: "test_a_parked_message_is_moved_as_it_is",
    d.ParkKeepsTheMessage: "test_a_parked_message_is_moved_as_it_is",
    d.ReleasesWhatIsNotDue: "test_a_delayed_message_is_not_pending_before_its_time",
    d.SleepsThroughACommit: "test_a_commit_after_reading_and_before_waiting_wakes",
    d.IsNeverWoken: "test_a_commit_of_another_connection_wakes",
    d.NeverWaits: "test_an_idle_wait_mostly_lasts",
    d.ReconnectsByItself: "test_every_call_on_a_closed_session_raises_connection_lost",
    d.GoesOnAfterAFallBack: "test_a_session_of_a_file_that_was_replaced_is_lost",
}

BROKER_RULES = {
    "fence_not_checked": "test_an_earlier_owner_is_fenced_and_nothing_of_it_is_read",
    "fence_is_the_token": "test_the_fence_is_the_brokers_own_number_not_the_token",
    "writes_no_receipt": "test_the_next_owner_reads_the_receipts_exactly",
    "keeps_the_first_receipts": "test_the_last_receipts_are_kept_and_no_more",
    "keeps_one_receipt": "test_the_next_owner_reads_the_receipts_exactly",
    "take_overs_use_up_receipts": "test_taking_over_again_and_again_forgets_no_receipt",
    "publishes_part_of_a_batch": "test_a_bad_message_is_named_and_the_others_go_out_once",
    "writes_the_receipt_afterwards": "test_an_owner_that_dies_in_mid_publish_leaves_all_or_nothing",
    "fails_the_whole_batch": "test_a_bad_message_is_named_and_the_others_go_out_once",
    "names_failures_as_published": "test_a_bad_message_alone_is_named",
    "publishes_after_closing": "test_a_closed_handoff_publishes_nothing",
    "publishes_in_another_order": "test_a_batch_is_published_complete_and_in_order",
    "forgets_tombstones": "test_a_tombstone_is_not_an_empty_payload",
    "drops_headers": "test_headers_arrive",
    "receipts_without_digests": "test_a_receipt_names_its_batch_exactly",
    "lanes_share_a_fence": "test_lanes_do_not_fence_each_other",
    "preparing_fences": "test_preparing_disturbs_nobody",
    "claims_to_be_atomic": "test_an_earlier_owner_is_fenced_and_nothing_of_it_is_read",
    "gives_no_reason": "test_the_broker_says_what_it_gives",
    "does_not_deduplicate": "test_a_deduplicating_broker_recognises_a_repeat",
}

ELECTIONS: dict[type[MemoryLeaseStore], str] = {
    e.TokensStandStill: "test_tokens_only_grow",
    e.RenewIgnoresTheToken: "test_renewing_an_earlier_term_of_the_same_owner_fails",
    e.RenewIgnoresTheOwner: "test_renewing_names_the_exact_owner_and_token",
    e.ReleaseIgnoresTheToken: "test_releasing_a_term_that_is_over_does_nothing",
    e.ChecksThenWrites: "test_one_of_many_wins",
    e.NeverExpires: "test_a_lease_that_is_not_renewed_ends",
    e.ExpiresEarly: "test_a_lease_that_is_not_renewed_ends",
    e.ReleaseWakesNobody: "test_a_release_lets_a_standby_in_at_once",
    e.NeverWaits: "test_a_wait_mostly_lasts",
    e.ShowsWhoLeft: "test_the_holder_is_shown",
    e.TheOwnersClockJudges: "test_the_clocks_of_the_machines_do_not_matter",
}

for contract in ("sources", "brokers", "elections"):  # once, here: each run would import them anew
    importlib.import_module(f"fencepost.testing.test_{contract}")

LEAN = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
"""Without what each run would load anew and nobody here needs."""

Failures = set[str]


class Kit:
    """The shipped kit, run inside this process against a plug-in that exists only here."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pytester, self._monkeypatch = pytester, monkeypatch

    def run(self, kind: str, rules: set[str], **attributes: object) -> tuple[Failures, Failures]:
        """Run these rules against a plug-in module with these attributes; which passed, and which failed."""
        module = ModuleType("planted.plugin")
        vars(module).update(attributes)
        self._monkeypatch.setitem(sys.modules, "planted.plugin", module)
        chosen = " or ".join(rules)
        arguments = [
            "--pyargs",
            "fencepost.testing",
            f"--{kind}=planted.plugin",
            f"--{kind}-url=memory://planted",
            "-k",
            chosen,
        ]
        record = self._pytester.inline_run(*arguments, *LEAN, plugins=[options])
        passed, skipped, failed = record.listoutcomes()
        assert not skipped
        return _names(passed), _names(failed)

    def database(self, session: type[MemorySession], rules: set[str]) -> tuple[Failures, Failures]:
        """The rules of sources against a planted database."""
        return self.run("database", rules, source=d.source_of(session), schema=d.schema, writer=memory_writer.writer)

    def broker(self, name: str, rules: set[str]) -> tuple[Failures, Failures]:
        """The rules of brokers against a planted broker."""
        return self.run("broker", rules, broker=broker_of(BROKERS[name]), reader=memory_reader.reader)

    def election(self, store: type[MemoryLeaseStore], rules: set[str]) -> tuple[Failures, Failures]:
        """The rules of lease stores against a planted store."""
        return self.run("election", rules, lease_store=e.lease_store_of(store))


def _names(reports: object) -> Failures:
    assert isinstance(reports, list)
    return {str(report.nodeid).rpartition("::")[2].partition("[")[0] for report in reports}


@pytest.fixture
def kit(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Kit:
    """The kit in a folder of its own."""
    return Kit(pytester, monkeypatch)


def test_without_a_bug_every_rule_named_here_passes(kit: Kit) -> None:
    of_databases, of_stores = set(DATABASES.values()), set(ELECTIONS.values())
    of_brokers = set(BROKER_RULES.values()) - {"test_a_deduplicating_broker_recognises_a_repeat"}
    for rules, (passed, failed) in (
        (of_databases, kit.database(d.Unchanged, of_databases)),
        (of_brokers, kit.broker("unchanged", of_brokers)),
        (of_stores, kit.election(e.Unchanged, of_stores)),
    ):
        assert failed == set()
        assert rules <= passed


SLOW = {d.SleepsThroughACommit}
"""Those whose rule waits for long until it is sure."""


def some(planted: Mapping[T, str]) -> list[Any]:
    """Every third quick one in the ordinary run, all of them in the long one: each is a pytest of its own."""
    return [
        pytest.param(*item, marks=pytest.mark.long if n % 3 or item[0] in SLOW else ())
        for n, item in enumerate(planted.items())
    ]


@pytest.mark.parametrize(("session", "rule"), some(DATABASES), ids=lambda value: getattr(value, "__name__", None))
def test_a_wrong_database_is_caught(kit: Kit, session: type[MemorySession], rule: str) -> None:
    assert rule in kit.database(session, {rule})[1]


@pytest.mark.parametrize(("name", "rule"), some(BROKER_RULES))
def test_a_wrong_broker_is_caught(kit: Kit, name: str, rule: str) -> None:
    assert rule in kit.broker(name, {rule})[1]


@pytest.mark.parametrize(("store", "rule"), some(ELECTIONS), ids=lambda value: getattr(value, "__name__", None))
def test_a_wrong_lease_store_is_caught(kit: Kit, store: type[MemoryLeaseStore], rule: str) -> None:
    assert rule in kit.election(store, {rule})[1]


def test_every_planted_broker_has_a_rule() -> None:
    assert set(BROKERS) - {"unchanged"} == set(BROKER_RULES)
    assert issubclass(BROKERS["unchanged"], MemoryBroker)
