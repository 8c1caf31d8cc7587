"""Formats with hardly any headers: ``plain``, and what Debezium's outbox router writes."""

from __future__ import annotations

from fencepost.envelope.times import Headers
from fencepost.message import Stored


class Lean:
    """The header ``id``, and ``version`` where that is wanted and the message has one.

    A repeat that is possible is marked here too: no format may hide it.
    """

    def __init__(self, *, with_version: bool) -> None:
        self._with_version = with_version

    def headers(self, message: Stored) -> Headers:
        headers = [("id", message.id)]
        if self._with_version and message.version is not None:
            headers.append(("version", str(message.version)))
        if message.in_doubt:
            headers.append(("possiblerepeat", "true"))
        if message.headers:
            taken = {name for name, _ in headers}
            headers.extend((name, value) for name, value in message.headers.items() if name not in taken)
        return headers

    def body(self, message: Stored) -> bytes | None:
        return message.payload
