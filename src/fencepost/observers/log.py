"""Events as log lines: one structured record of the logger "fencepost" for each event that matters.

What happens for every batch is added up to a line per 10 seconds (each one is there at level debug); a circuit that
stays open for the same cause is told once a minute. A record carries ``event`` (its name), ``lane`` and ``fields``
(name -> value), from which JsonFormatter and TextFormatter make lines. No payload and no secret is in them.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any, NamedTuple, TypeVar

from fencepost import events
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.words import counted

LOGGER_NAME = "fencepost"
SUMMARY_EVERY_S = 10.0
SAME_CAUSE_EVERY_S = 60.0
STRANGER_KNOWN_S = 600.0
STRANGER_LASTS_S = 10.0

_SAME_NAME = (
    "fenced again by a relay that has no lease in this lease store: a relay of the same name, for another database, "
    "publishes to this broker. Give each outbox a [relay] name of its own; until then they stop each other"
)

E = TypeVar("E", bound=events.Event)


class _Line(NamedTuple):
    level: int
    name: str
    text: str


_LINES: dict[type[events.Event], _Line] = {
    events.RelayStarted: _Line(logging.INFO, "relay_started", "relay started as {owner}, delivery {delivery}"),
    events.OutboxLimited: _Line(logging.WARNING, "outbox_limited", "what this outbox does not give: {all}"),
    events.RelayFailed: _Line(logging.ERROR, "relay_failed", "unexpected error, the relay starts over: {cause}"),
    events.StandingBy: _Line(logging.INFO, "standing_by", "standing by, the leader is {owner}"),
    events.LeaseAcquired: _Line(logging.INFO, "lease_acquired", "leading, term {token}"),
    events.LeaseEnded: _Line(logging.INFO, "lease_ended", "term {token} is over: {reason}"),
    events.TakenOver: _Line(
        logging.INFO, "taken_over", "taken over at the broker in {duration_s:.3f} s, {count[receipts]} read"
    ),
    events.ReceiptsSettled: _Line(logging.INFO, "receipts_settled", "settled {count[rows]}, already published"),
    events.DatabaseFellBack: _Line(
        logging.ERROR,
        "database_fell_back",
        "the database has lost its last transactions (a fail-over or a restored backup?), or another outbox's relay "
        "has the same name at this broker; positions up to {position} are reserved",
    ),
    events.Published: _Line(logging.DEBUG, "published", "published {count[messages]} in {duration_s:.3f} s"),
    events.Settled: _Line(logging.DEBUG, "settled", "settled {count[rows]}"),
    events.RowsVanished: _Line(
        logging.ERROR,
        "rows_vanished",
        "lost: {count[rows]} at positions {first} to {last}, deleted by somebody else before they were published "
        "(a truncated table?): {ids}",
    ),
    events.NotSettled: _Line(
        logging.WARNING, "not_settled", "published messages are not settled yet, the next owner does it: {cause}"
    ),
    events.Purged: _Line(logging.INFO, "purged", "purged {rows:,} settled rows"),
    events.NotPurged: _Line(
        logging.WARNING, "not_purged", "settled rows are not purged, next try in {delay_s:.0f} s: {cause}"
    ),
    events.MessageFailed: _Line(
        logging.WARNING,
        "message_failed",
        "message {message_id} for {topic} failed (attempt {attempts}), next try in {delay_s:.1f} s: {cause}",
    ),
    events.MessageParked: _Line(
        logging.ERROR, "message_parked", "message {message_id} for {topic} is parked after {count[attempts]}: {cause}"
    ),
    events.CircuitOpened: _Line(
        logging.WARNING, "circuit_opened", "cannot go on, next try in {delay_s:.1f} s ({count[failures]}): {cause}"
    ),
    events.CircuitClosed: _Line(logging.INFO, "circuit_closed", "going on after {open_s:.1f} s"),
    events.TopicHeld: _Line(
        logging.WARNING,
        "topic_held",
        "messages for {topic} cannot go, next try in {delay_s:.1f} s ({count[failures]}), other topics go on: {cause}",
    ),
    events.TopicResumed: _Line(logging.INFO, "topic_resumed", "messages for {topic} go again after {held_s:.1f} s"),
    events.NoAnswer: _Line(logging.WARNING, "no_answer", "no answer for {waited_s:.0f} s while {doing}, still waiting"),
    events.OwnerFenced: _Line(logging.WARNING, "owner_fenced", "fenced, term {token} stops at once: {cause}"),
}

_REASONS = {
    "trust ended": ": it could not be renewed in time (the lease store did not answer, or this process stood still)",
    "lost": ": the lease store says that it is over",
}

_COUNTED = {
    "messages": "message",
    "rows": "message",
    "receipts": "receipt",
    "attempts": "attempt",
    "failures": "failure",
}
"""What the number in a field counts: {count[rows]} in a text is "1 message"."""


@dataclass(slots=True)
class _Totals:
    """What a lane published since its last summary."""

    since: float
    messages: int = 0
    payload_bytes: int = 0
    batches: int = 0
    oldest_age_max_s: float = 0.0


@dataclass(slots=True)
class _Lane:
    """What is remembered of a lane between two events."""

    totals: _Totals
    cause: str | None = None
    cause_told: float = 0.0
    leader: str | None = None
    fenced_token: int | None = None
    strangers: list[float] = field(default_factory=list)
    """When it was fenced by somebody who has no lease here."""
    stranger_told_s: float = float("-inf")


class LogObserver:
    """An observer that writes to the logger "fencepost". ``scrub`` replaces secrets in what libraries say."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, scrub: Callable[[str], str] = str) -> None:
        self._logger = logging.getLogger(LOGGER_NAME)
        self._clock, self._scrub = clock, scrub
        self._lanes: dict[str, _Lane] = {}

    def __call__(self, event: events.Event) -> None:
        lane = self._lanes.get(event.lane) or self._begin(event.lane)
        line = _line(event)
        if isinstance(event, events.Published):
            self._add(lane, event)
        if self._is_news(lane, event) and self._logger.isEnabledFor(line.level):
            if line.level > logging.DEBUG:
                self._summarise(event.lane, lane)
            self._tell(event, line)
        self._look_for_strangers(lane, event)
        if self._clock.monotonic() - lane.totals.since >= SUMMARY_EVERY_S:
            self._summarise(event.lane, lane)

    def close(self) -> None:
        """Tell what was added up and not told yet."""
        for name, lane in self._lanes.items():
            self._summarise(name, lane)

    def _begin(self, name: str) -> _Lane:
        # The first batch is told at once, as one after a pause is.
        self._lanes[name] = lane = _Lane(_Totals(since=self._clock.monotonic() - SUMMARY_EVERY_S))
        return lane

    def _add(self, lane: _Lane, event: events.Published) -> None:
        totals = lane.totals
        totals.messages += event.messages
        totals.payload_bytes += event.payload_bytes
        totals.batches += 1
        totals.oldest_age_max_s = max(totals.oldest_age_max_s, event.oldest_age_s)

    def _is_news(self, lane: _Lane, event: events.Event) -> bool:
        """False for what was told before and has not changed. Also remembers what will have been told."""
        if isinstance(event, events.CircuitOpened):
            now = self._clock.monotonic()
            if event.cause == lane.cause and now - lane.cause_told < SAME_CAUSE_EVERY_S:
                return False
            lane.cause, lane.cause_told = event.cause, now
        elif isinstance(event, events.CircuitClosed):
            lane.cause = None
        elif isinstance(event, events.StandingBy):
            known, lane.leader = lane.leader, event.owner or ""
            return lane.leader != known
        elif isinstance(event, events.LeaseAcquired):
            lane.leader = None
        return True

    def _look_for_strangers(self, lane: _Lane, event: events.Event) -> None:
        """Who fences us has a later term. Where the next one is ours again, it has its leases elsewhere.

        Once may have another cause: Kafka itself fences who lets a transaction expire.
        """
        if isinstance(event, events.OwnerFenced):
            lane.fenced_token = event.token
        elif isinstance(event, events.LeaseAcquired) and lane.fenced_token is not None:
            now, is_stranger = self._clock.monotonic(), event.token == lane.fenced_token + 1
            lane.fenced_token = None
            known = [moment for moment in lane.strangers if now - moment < STRANGER_KNOWN_S]
            lane.strangers = [*known, now] if is_stranger else known
            # A relay that was paused may fence its successor once or twice, but not for long.
            lasting = bool(known) and now - known[0] >= STRANGER_LASTS_S
            if is_stranger and lasting and now - lane.stranger_told_s >= STRANGER_KNOWN_S:
                lane.stranger_told_s = now
                self._log(logging.ERROR, "same_name_elsewhere", event.lane, _SAME_NAME, {"times": len(lane.strangers)})

    def _summarise(self, name: str, lane: _Lane) -> None:
        totals, now = lane.totals, self._clock.monotonic()
        if not totals.batches:
            return
        lane.totals = _Totals(since=now)
        fields = {
            "messages": totals.messages,
            "payload_bytes": totals.payload_bytes,
            "batches": totals.batches,
            "oldest_age_max_s": round(totals.oldest_age_max_s, 3),
        }
        text = f"published {counted(totals.messages, 'message')} in {counted(totals.batches, 'batch')}"
        self._log(logging.INFO, "published_total", name, text, fields)

    def _tell(self, event: events.Event, line: _Line) -> None:
        fields = {f.name: getattr(event, f.name) for f in dataclasses.fields(event) if f.name != "lane"}
        error = fields.pop("error", None)
        shown = {name: self._shown(value) for name, value in fields.items()}
        count = {name: counted(fields[name], noun) for name, noun in _COUNTED.items() if name in fields}
        words = {**shown, "count": count, "event": type(event).__name__, "owner": shown.get("owner") or "nobody yet"}
        words["ids"] = ", ".join(fields.get("message_ids", ()))
        words["all"] = "; ".join(fields.get("limits", ()))
        text = line.text.format(**words)
        self._log(line.level, line.name, event.lane, text, shown, error)

    def _shown(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._scrub(value)
        return round(value, 6) if isinstance(value, float) else value

    def _log(
        self, level: int, name: str, lane: str, text: str, fields: dict[str, Any], error: BaseException | None = None
    ) -> None:
        extra = {"event": name, "lane": lane, "fields": fields}
        self._logger.log(level, "%s: %s", lane, text, extra=extra, exc_info=error)


def _line(event: events.Event) -> _Line:
    """How an event is told; an event of a later version by its name."""
    line = _LINES.get(type(event)) or _Line(logging.INFO, type(event).__name__, "{event}")
    if isinstance(event, events.ReceiptsSettled) and not event.rows:
        return line._replace(level=logging.DEBUG)
    if isinstance(event, events.Settled) and event.rows < event.expected:
        return line._replace(
            level=logging.WARNING, text="settled {count[rows]} of {expected}: others had settled or deleted the rest"
        )
    if isinstance(event, events.LeaseEnded) and event.reason != "released":
        return line._replace(level=logging.WARNING, text=f"{line.text}{_REASONS.get(event.reason, '')}")
    return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts (RFC 3339, UTC), level, event, lane, the event's own fields, text."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"ts": moment, "level": record.levelname.lower(), "event": getattr(record, "event", "log")}
        line |= {"lane": record.lane} if hasattr(record, "lane") else {}
        line |= getattr(record, "fields", {})
        line["text"] = record.getMessage()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """For people: the local time, the level, the text."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S")


class _Handler(logging.StreamHandler[IO[str]]):
    """One whose stream may fail: a relay that cannot write its log goes on, and says so once."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._said = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """Called in place of an exception."""
        error = sys.exception()
        cause = error if isinstance(error, OSError) else getattr(error, "__cause__", None)
        if not isinstance(cause, OSError):
            super().handleError(record)
        elif not self._said and sys.stderr is not None:
            self._said = True
            with suppress(OSError):
                sys.stderr.write(f"the log cannot be written: {cause.strerror}; the relay goes on without it\n")


def configure(*, as_json: bool, level: str, stream: IO[str]) -> None:
    """Let the logger "fencepost" write to ``stream`` and nowhere else, for a process that has no logging of its own."""
    handler = _Handler(stream)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logger = logging.getLogger(LOGGER_NAME)
    for old in list(logger.handlers):
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
