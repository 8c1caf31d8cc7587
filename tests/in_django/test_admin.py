"""The admin pages, as a browser sees them: nothing can be edited, payloads are hidden, what is parked is dealt with."""

from __future__ import annotations

import html
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.test import Client, override_settings

from fencepost.django import admin, outbox, parked
from fencepost.django.models import PendingMessage
from tests.in_django.conftest import Database
from tests.in_django.parking import park, set_position

PENDING, PARKED = "/admin/fencepost/pendingmessage/", "/admin/fencepost/parkedmessage/"
LARGE = 2**53 + 1


def client(*permissions: str) -> Client:
    """Somebody who may enter, with permissions of this app; "all" stands for a superuser."""
    user = User.objects.create(username="somebody", is_staff=True, is_superuser="all" in permissions)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    browser = Client(raise_request_exception=True)
    browser.force_login(user)
    return browser


def page(browser: Client, url: str) -> str:
    answer = browser.get(url)
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


def act(browser: Client, action: str, *ids: str, **more: str) -> Any:
    return browser.post(PARKED, {"action": action, "_selected_action": ids, **more}, follow=True)


def test_what_waits_is_shown_and_cannot_be_changed(complete: Database) -> None:
    with transaction.atomic():
        outbox.add("orders", {"card": "4111"}, key="order-7", type="order.placed")
        outbox.add("orders", 1, key="order-8")
    browser = client("view_pendingmessage")
    shown = page(browser, PENDING)
    assert "order-7" in shown
    assert "order.placed" in shown
    assert "4111" not in shown
    assert "/add/" not in shown
    assert "order-8" not in page(browser, f"{PENDING}?q=order-7")
    assert browser.get(f"{PENDING}add/").status_code == 403
    assert browser.post(f"{PENDING}1/change/", {"topic": "x"}).status_code == 403
    assert browser.get(f"{PENDING}1/delete/").status_code == 403
    assert [row[0] for row in complete.rows()] == ["order-7", "order-8"]


def test_what_is_settled_and_stays_does_not_wait(complete: Database) -> None:
    with transaction.atomic():
        outbox.add("orders", 1, key="order-7")
        outbox.add("orders", 1, key="order-8")
        connection.cursor().execute("UPDATE fencepost_outbox SET state = 3 WHERE seq = 2")
    shown = page(client("all"), PENDING)
    assert "order-7" in shown
    assert "order-8" not in shown


def test_who_may_see_a_page(complete: Database) -> None:
    browser = client("view_payload")
    assert browser.get(PENDING).status_code == 403
    assert browser.get(PARKED).status_code == 403


@pytest.mark.parametrize("allowed", [False, True])
def test_a_payload_needs_a_permission(complete: Database, allowed: bool) -> None:
    (one,) = park(complete, ("orders", {"card": "<b>4111"}, "order-7"))
    with transaction.atomic():
        outbox.add("orders", {"card": "<b>4111"}, key="1", headers={"trace": "s3cret"})
    browser = client("view_parkedmessage", "view_pendingmessage", *(["view_payload"] if allowed else []))
    for url in (f"{PARKED}{one}/change/", f"{PENDING}2/change/"):
        raw = browser.get(url).content.decode()
        assert "order-7" in raw or PENDING in url
        assert ("4111" in raw) is allowed
        assert ("s3cret" in raw) is allowed
        assert ("needs the permission fencepost.view_payload" in raw) is not allowed
        assert "<b>4111" not in raw, "what is in a message is text, not HTML"


@pytest.mark.parametrize("thousands", [False, True])
def test_large_positions_and_versions_are_exact(complete: Database, thousands: bool) -> None:
    """E8."""
    (one,) = park(complete, ("orders", 1, "1"))
    with transaction.atomic():
        outbox.add("orders", 1, key="2", version=LARGE)
    set_position(complete, LARGE)
    browser = client("all")
    with override_settings(USE_THOUSAND_SEPARATOR=thousands):
        for url in (PENDING, PARKED, f"{PENDING}{LARGE}/change/", f"{PARKED}{one}/change/"):
            assert page(browser, url).count(str(LARGE)) >= 2, url


@pytest.mark.parametrize("use_tz", [True, False])
def test_times_are_those_that_were_stored(default: Database, use_tz: bool) -> None:
    moment = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    with override_settings(USE_TZ=use_tz), transaction.atomic():
        outbox.add("orders", 1, occurred_at=moment)
        assert PendingMessage.objects.get().occurred_at == moment


def test_parked_messages_are_retried(complete: Database) -> None:
    one, two, three = park(complete, ("orders", 1, "1"), ("orders", 2, "1"), ("orders", 3, "1"))
    browser = client("view_parkedmessage", "retry_parkedmessage")
    said = act(browser, "retry", two, one).content.decode()
    assert "2 messages retried." in said
    assert [row[2] for row in complete.rows()] == ["1", "2"], "in the order in which they stood"
    assert [row[0] for row in complete.rows("id", "parked")] == [three]
    assert {(entry.object_id, entry.change_message) for entry in LogEntry.objects.all()} == {
        (one, "Retried."),
        (two, "Retried."),
    }


def test_parked_messages_are_discarded_when_it_was_confirmed(complete: Database) -> None:
    one, two = park(complete, ("orders", 1, "1"), ("orders", 2, "1"), reason="no <such> topic")
    browser = client("view_parkedmessage", "discard_parkedmessage")
    asked = act(browser, "discard", one).content.decode()
    assert "1 message will be removed for good" in asked
    assert "no &lt;such&gt; topic" in asked
    assert one in asked
    assert len(complete.rows("id", "parked")) == 2
    assert "1 message discarded." in act(browser, "discard", one, confirmed="yes").content.decode()
    assert [row[0] for row in complete.rows("id", "parked")] == [two]
    assert complete.rows() == []


def test_what_is_done_to_them_needs_permissions(complete: Database) -> None:
    (one,) = park(complete, ("orders", 1, "1"))
    browser = client("view_parkedmessage")
    assert 'value="retry"' not in page(browser, PARKED)
    act(browser, "retry", one)
    act(browser, "discard", one, confirmed="yes")
    assert len(complete.rows("id", "parked")) == 1
    assert complete.rows() == []


def test_two_people_at_once(complete: Database) -> None:
    one, two = park(complete, ("orders", 1, "1"), ("orders", 2, "1"))
    browser = client("all")
    work: Callable[..., list[str]] = parked.retry

    def late(ids: Any, *, using: str) -> list[str]:
        work([one], using=using)
        return work(ids, using=using)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parked, "retry", late)
        said = act(browser, "retry", one, two).content.decode()
    assert "1 message retried; 1 message had gone already." in said
    assert len(complete.rows()) == 2


def test_another_database(complete: Database, other: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = park(other, ("orders", 1, "1"))
    browser = client("all")
    assert one not in page(browser, PARKED)
    monkeypatch.setattr(admin.MessageAdmin, "using", "other")
    assert one in page(browser, PARKED)
    act(browser, "retry", one)
    assert len(other.rows()) == 1


def test_a_payload_that_is_no_text_or_long(complete: Database) -> None:
    long, binary, grave = park(complete, ("t", b"x" * 30_000, "1"), ("t", b"\xff\x00", "1"), ("t", None, "1"))
    browser = client("all")
    assert "x... (30,000 bytes)" in page(browser, f"{PARKED}{long}/change/")
    assert "2 bytes that are no text" in page(browser, f"{PARKED}{binary}/change/")
    assert "none: a tombstone" in page(browser, f"{PARKED}{grave}/change/")


def test_a_long_list_is_not_counted_to_its_end(complete: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "COUNTED_MAX", 2)
    park(complete, *(("orders", number, "1") for number in range(3)))
    assert "2 parked messages" in page(client("all"), PARKED)


def test_an_id_that_is_none(complete: Database) -> None:
    browser = client("all")
    assert browser.get(f"{PARKED}nobody/change/", follow=True).status_code == 200
    assert browser.get(f"{PENDING}99/change/", follow=True).status_code == 200
