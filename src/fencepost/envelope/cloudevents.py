"""CloudEvents 1.0 in binary mode: the attributes as headers and the payload as it is.

The attributes that do not change from message to message (specversion, source, type, content type) are made once and
kept.
"""

from __future__ import annotations

from fencepost.envelope.times import Headers, TimeText
from fencepost.message import Stored

_FIXED_KEPT_MAX = 1024


class Binary:
    """``fencepost.envelope.Envelope`` and ``envelope`` say what is promised."""

    def __init__(self, source: str, prefix: str) -> None:
        self._source = source
        self._id, self._time = f"{prefix}id", f"{prefix}time"
        self._subject, self._version = f"{prefix}subject", f"{prefix}entityversion"
        self._possible_repeat = f"{prefix}possiblerepeat"
        self._prefix = prefix
        self._time_text = TimeText()
        self._fixed: dict[tuple[str, str], Headers] = {}

    def headers(self, message: Stored) -> Headers:
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

    def body(self, message: Stored) -> bytes | None:
        return message.payload

    def _keep(self, kind: tuple[str, str]) -> Headers:
        if len(self._fixed) >= _FIXED_KEPT_MAX:  # types taken from data must not fill the memory
            self._fixed.clear()
        p, (message_type, content_type) = self._prefix, kind
        fixed = [(f"{p}specversion", "1.0"), (f"{p}source", self._source), (f"{p}type", message_type)]
        self._fixed[kind] = [*fixed, ("content-type", content_type)]
        return self._fixed[kind]
