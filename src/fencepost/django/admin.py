"""Admin pages: what waits, and what is parked. Nothing can be edited; parked messages can be retried or discarded.

Payloads and headers are shown only to who has the permission ``fencepost.view_payload``. Positions and versions are
shown as they are, digit by digit, however large they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.functional import cached_property

from fencepost.django import parked, settings
from fencepost.django.models import ParkedMessage, PendingMessage, Stored
from fencepost.sql.tables import State
from fencepost.words import counted

COUNTED_MAX = 10_000
"""A longer list is not counted to its end: that would read the whole table for each page."""

SHOWN_BYTES_MAX = 20_000
"""The rest of a longer payload is not shown."""

_HIDDEN = "hidden: needs the permission fencepost.view_payload"


if TYPE_CHECKING:
    _Paginator = Paginator[Any]
    _ModelAdmin = admin.ModelAdmin[Any]
else:  # they take no types when they run
    _Paginator, _ModelAdmin = Paginator, admin.ModelAdmin


class BoundedPaginator(_Paginator):
    """Counts at most COUNTED_MAX rows."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows[:COUNTED_MAX].count())


class MessageAdmin(_ModelAdmin):
    """What both pages share. ``using`` is the alias of the database, None for that of settings.FENCEPOST."""

    using: str | None = None
    actions_selection_counter = True
    list_per_page = 100
    paginator = BoundedPaginator
    show_full_result_count = False
    search_fields = ("topic__exact", "key__exact", "type__exact")
    search_help_text = "a topic, a key or a type, exactly"
    sortable_by = ()

    @property
    def alias(self) -> str:
        """The database."""
        return settings.default_alias() if self.using is None else self.using

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """From the database that is written to: another one may lag behind."""
        rows: QuerySet[Any] = self.model._default_manager.using(self.alias).order_by("seq").defer("payload")
        return rows

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """All of them; what is in a message is left out for who may not see it."""
        shown = request.user.has_perm("fencepost.view_payload")  # type: ignore[union-attr]
        return [
            name if shown or name not in {"content", "shown_headers"} else f"hidden_{name}"
            for name in self.fields or ()
        ]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """The same, in their order."""
        return self.get_readonly_fields(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A message is added in a transaction, by the application."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A relay may be reading it."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What is committed is published, or discarded by its own action."""
        return False

    @admin.display(description="position")
    def position(self, obj: Any) -> str:
        """Where it stands, or stood."""
        return str(obj.seq)

    @admin.display(description="version", empty_value="-")
    def exact_version(self, obj: Stored) -> str | None:
        """Digit by digit."""
        return None if obj.version is None else str(obj.version)

    @admin.display(description="payload")
    def content(self, obj: Stored) -> str:
        """The payload as text where it is one."""
        return _text(obj.payload)

    @admin.display(description="headers", empty_value="-")
    def shown_headers(self, obj: Stored) -> str | None:
        """The application's own headers, as JSON."""
        return obj.headers

    @admin.display(description="payload")
    def hidden_content(self, obj: Stored) -> str:
        """Instead of the payload."""
        return _HIDDEN

    @admin.display(description="headers")
    def hidden_shown_headers(self, obj: Stored) -> str:
        """Instead of the headers."""
        return _HIDDEN


def _text(payload: bytes | memoryview | None) -> str:
    if payload is None:
        return "none: a tombstone"
    data = bytes(payload)
    try:
        text = data[:SHOWN_BYTES_MAX].decode()
    except UnicodeDecodeError:
        return f"{len(data):,} bytes that are no text"
    return text if len(data) <= SHOWN_BYTES_MAX else f"{text}... ({len(data):,} bytes)"


@admin.register(PendingMessage)
class PendingMessageAdmin(MessageAdmin):
    """What waits to be published, the next one first."""

    list_display = ("position", "topic", "key", "exact_version", "type", "occurred_at", "waits_as", "attempts")
    list_display_links = ("position",)
    fields = (
        *("position", "message_id", "topic", "key", "exact_version", "type", "content_type", "occurred_at"),
        *("available_at", "waits_as", "attempts", "last_error", "slot", "shown_headers", "content"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Without those that are settled and stay."""
        return super().get_queryset(request).filter(state__in=(State.PENDING, State.SENDING, State.DELAYED))

    @admin.display(description="state")
    def waits_as(self, obj: PendingMessage) -> str:
        """In words."""
        return obj.STATES.get(obj.state, str(obj.state))


@admin.register(ParkedMessage)
class ParkedMessageAdmin(MessageAdmin):
    """What could not be published, and why."""

    actions = ("retry", "discard")
    list_display = ("parked_at", "topic", "key", "exact_version", "type", "attempts", "reason", "position")
    list_display_links = ("parked_at",)
    fields = (
        *("position", "message_id", "topic", "key", "exact_version", "type", "content_type", "occurred_at"),
        *("parked_at", "reason", "attempts", "slot", "shown_headers", "content"),
    )

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """For the action."""
        return request.user.has_perm("fencepost.retry_parkedmessage")  # type: ignore[union-attr]

    def has_discard_permission(self, request: HttpRequest) -> bool:
        """For the action."""
        return request.user.has_perm("fencepost.discard_parkedmessage")  # type: ignore[union-attr]

    @admin.action(description="Retry: put to the end of their keys", permissions=["retry"])
    def retry(self, request: HttpRequest, queryset: QuerySet[ParkedMessage]) -> None:
        """They wait again, in the order in which they stood."""
        self._do(request, queryset, parked.retry, "retried")

    @admin.action(description="Discard: nobody will ever read them", permissions=["discard"])
    def discard(self, request: HttpRequest, queryset: QuerySet[ParkedMessage]) -> HttpResponse | None:
        """They are gone, once it was confirmed."""
        if request.POST.get("confirmed") == "yes":
            self._do(request, queryset, parked.discard, "discarded")
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": "Discard parked messages?",
            "messages_to_discard": queryset,
            "what": counted(queryset.count(), "message"),
            "opts": self.model._meta,
            "action_checkbox_name": ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/fencepost/parkedmessage/discard.html", context)

    def _do(
        self, request: HttpRequest, queryset: QuerySet[ParkedMessage], work: Callable[..., list[str]], done: str
    ) -> None:
        chosen = {message.message_id: message for message in queryset.order_by("seq")}
        moved = work(chosen, using=self.alias)
        for message_id in moved:
            self.log_change(request, chosen[message_id], f"{done.capitalize()}.")
        gone = len(chosen) - len(moved)
        rest = f"; {counted(gone, 'message')} had gone already" if gone else ""
        self.message_user(request, f"{counted(len(moved), 'message')} {done}{rest}.", messages.SUCCESS)
