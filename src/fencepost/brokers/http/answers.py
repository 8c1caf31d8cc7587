"""What a target's answer means: taken, refused for this message's sake, or the target itself is in trouble."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import NamedTuple

from fencepost.errors import AccessDenied, FencepostError, FixError, ParkError, RetryError, Unavailable

RETRY_AFTER_MAX_S = 3600.0
"""A target may ask for a longer pause; it is tried again all the same."""


class Trouble(NamedTuple):
    """A target does not take a message, and the message need not be why. ``pause_s`` is how long it asked to be left
    alone, at least; ``busy``: it said that it takes too much already.
    """

    error: RetryError | FixError
    pause_s: float = 0.0
    busy: bool = False


_BUSY = {429, 503}
_MESSAGE_AGAIN = {409, 423, 424}
"""Somebody else is at it: the same message may be taken a little later."""

_TARGET: dict[int, tuple[type[RetryError] | type[FixError], str]] = {
    401: (AccessDenied, "check the user and password in the URL, or bearer_token"),
    402: (AccessDenied, "the target's owner has to pay, or to permit it"),
    403: (AccessDenied, "permit it there; check bearer_token and signing_secrets"),
    404: (FixError, "check the path of the URL; for a {topic} that the target does not know, set targets.TOPIC"),
    405: (FixError, "the target must take POST: check the path of the URL"),
    407: (AccessDenied, "check the user and password of proxy"),
    408: (Unavailable, ""),
    410: (FixError, "the target is gone for good: set another URL"),
    421: (FixError, "check the host name in the URL"),
    425: (Unavailable, ""),
    426: (FixError, "the target wants another protocol: check the scheme of the URL"),
    429: (Unavailable, "it wants fewer messages: lower connections if this stays"),
    501: (FixError, "the target must take POST: check the URL"),
    505: (FixError, "the target must speak HTTP/1.1"),
    511: (FixError, "a network between wants a login"),
}
_MOVED = "redirections are not followed: set the URL that it leads to"


def judged(status: int, retry_after: str | None, who: str, now: datetime) -> ParkError | Trouble | None:
    """None where the message was taken. ``who`` is the target for people, ``now`` is for a ``retry_after`` that is a
    date.
    """
    if 200 <= status < 300:
        return None
    text = f"{who} answered {status}{_phrase(status)}"
    if status in _TARGET:
        family, remedy = _TARGET[status]
        return Trouble(family(text, remedy=remedy), _pause_s(retry_after, now), status in _BUSY)
    if 300 <= status < 400:
        return Trouble(FixError(text, remedy=_MOVED))
    if 400 <= status < 500:
        remedy = "see in the target's log what it has against the message"
        return ParkError(text, remedy=remedy, at_once=status not in _MESSAGE_AGAIN)
    return Trouble(Unavailable(text), _pause_s(retry_after, now), status in _BUSY)


def _phrase(status: int) -> str:
    try:
        return f" ({HTTPStatus(status).phrase})"
    except ValueError:
        return ""


def _pause_s(retry_after: str | None, now: datetime) -> float:
    """Seconds, from a number or a date; 0 where there is neither."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), RETRY_AFTER_MAX_S)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:  # "-0000": a time in UTC, says the format
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, (moment - now).total_seconds()), RETRY_AFTER_MAX_S)


def as_one_message(trouble: FencepostError) -> ParkError:
    """The trouble of a target that takes other messages: then this message is why."""
    return ParkError(trouble.what, remedy=trouble.remedy)
