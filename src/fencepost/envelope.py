"""The wire envelope: CloudEvents 1.0 in binary mode, the attributes as headers and the payload as it is.

The attributes that do not change from message to message (specversion, source, type, content type) are made once and
kept.
"""

from __future__ import annotations

from datetime import UTC, datetime

from fencepost.message import Stored

Headers = list[tuple[str, str]]

_FIXED_KEPT_MAX = 1024


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
        self._fixed: dict[tuple[str, str], Headers] = {}

    def headers(self, message: Stored) -> Headers:
        """The headers of one message as (name, text), each name once; the application's own headers last."""
        kind = (message.type, message.content_type)
        fixed = self._fixed.get(kind) or self._keep(kind)
        headers = [*fixed, (self._id, message.id), (self._time, rfc3339(message.occurred_at))]
        if message.key is not None:
            headers.append((self._subject, message.key))
        if message.version is not None:
            headers.append((self._version, str(message.version)))
        if message.in_doubt:
            headers.append((self._possible_repeat, "true"))
        if message.headers:
            headers.extend(message.headers.items())
        return headers

    def _keep(self, kind: tuple[str, str]) -> Headers:
        if len(self._fixed) >= _FIXED_KEPT_MAX:  # types taken from data must not fill the memory
            self._fixed.clear()
        p, (message_type, content_type) = self._prefix, kind
        fixed = [(f"{p}specversion", "1.0"), (f"{p}source", self._source), (f"{p}type", message_type)]
        self._fixed[kind] = [*fixed, ("content-type", content_type)]
        return self._fixed[kind]


def rfc3339(moment: datetime) -> str:
    """A time in UTC as text, for example 2026-03-01T12:00:00.000250+00:00."""
    return (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).isoformat()
