"""The wire envelope: CloudEvents 1.0 in binary mode, the attributes as headers and the payload as it is.

The attributes that do not change from message to message (specversion, source, type, content type) are made once and
kept.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fencepost.message import Stored

Headers = list[tuple[str, str]]

_FIXED_KEPT_MAX = 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_US = 1_000_000


class Envelope:
    """Makes the headers of a message.

    ``source`` is the CloudEvents source (a URI reference that names the service). ``prefix`` stands before each
    attribute's name: ``ce_`` on Kafka, ``ce-`` on NATS and HTTP, as the protocol bindings of CloudEvents say.
    """

    def __init__(self, source: str, prefix: str) -> None:
        self._source = source
        self._id, self._time = f"{prefix}id", f"{prefix}time"
        self._subject, self._version = f"{prefix}subject", f"{prefix}entityversion"
        self._possible_repeat = f"{prefix}possiblerepeat"
        self._prefix = prefix
        self._time_text = TimeText()
        self._fixed: dict[tuple[str, str], Headers] = {}

    def headers(self, message: Stored) -> Headers:
        """The headers of one message as (name, text), each name once; the application's own headers last."""
        # Taken apart at once: this runs for every message, and looking up ten attributes costs more than the rest.
        _, message_id, _, key, version, kind, _, content_type, own, occurred_us, _, in_doubt = message
        fixed = self._fixed.get((kind, content_type)) or self._keep((kind, content_type))
        headers = [*fixed, (self._id, message_id), (self._time, self._time_text(occurred_us))]
        if key is not None:
            headers.append((self._subject, key))
        if version is not None:
            headers.append((self._version, str(version)))
        if in_doubt:
            headers.append((self._possible_repeat, "true"))
        if own:
            headers.extend(own.items())
        return headers

    def _keep(self, kind: tuple[str, str]) -> Headers:
        if len(self._fixed) >= _FIXED_KEPT_MAX:  # types taken from data must not fill the memory
            self._fixed.clear()
        p, (message_type, content_type) = self._prefix, kind
        fixed = [(f"{p}specversion", "1.0"), (f"{p}source", self._source), (f"{p}type", message_type)]
        self._fixed[kind] = [*fixed, ("content-type", content_type)]
        return self._fixed[kind]


class TimeText:
    """``rfc3339`` for many moments in a row: the text of a second is kept while moments fall into it (3 times as fast).

    May be shared between threads.
    """

    def __init__(self) -> None:
        self._second = (0, _second_text(0))

    def __call__(self, moment_us: int) -> str:
        """The same text as ``rfc3339`` gives of that moment (microseconds since 1970)."""
        second_us, text = self._second
        since_us = moment_us - second_us
        if not 0 <= since_us < _SECOND_US:
            since_us = moment_us % _SECOND_US
            text = _second_text(moment_us - since_us)
            self._second = (moment_us - since_us, text)
        return f"{text}.{since_us:06d}+00:00" if since_us else text + "+00:00"


def _second_text(moment_us: int) -> str:
    return (_EPOCH + timedelta(microseconds=moment_us)).isoformat()[:19]


def rfc3339(moment: datetime) -> str:
    """A time in UTC as text, for example 2026-03-01T12:00:00.000250+00:00; no fraction where it is 0."""
    return (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).isoformat()
