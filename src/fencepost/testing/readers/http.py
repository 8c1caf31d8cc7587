"""A reader of webhooks: the HTTP server that they are sent to, which keeps what it takes.

It listens at the address of the URL from the moment it is made. A body of more than a megabyte it refuses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import unquote

from fencepost.demo.webhooks import Headers, Receiver
from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen
from fencepost.testing.readers.cloudevents import seen

BODY_BYTES_MAX = 1_000_000
_OF_HTTP = {"authorization", "content-length", "host", "idempotency-key", "user-agent"}


class HttpReader:
    """``fencepost.testing.harness.Reader`` says what each call promises."""

    def __init__(self, url: str) -> None:
        self._taken: dict[str, list[Seen]] = defaultdict(list)
        self._receiver = Receiver(url, self._take)

    async def read(self, topic: str) -> Sequence[Seen]:
        return list(self._taken[topic])

    def unpublishable(self, message: Stored) -> Stored:
        return message._replace(payload=bytes(BODY_BYTES_MAX + 1))

    async def close(self) -> None:
        await self._receiver.close()

    def _take(self, headers: Headers, body: bytes) -> int:
        if len(body) > BODY_BYTES_MAX:
            return 413
        topic = unquote(dict(headers)["fencepost-topic"])
        self._taken[topic].append(_seen(topic, body, headers))
        return 204


def _seen(topic: str, body: bytes, headers: Headers) -> Seen:
    gone = ("fencepost-tombstone", "true") in headers
    own = [
        (name, unquote(value) if name.startswith("ce-") else value)
        for name, value in headers
        if name.lower() not in _OF_HTTP and not name.startswith("fencepost-")
    ]
    return seen(topic, None if gone else body, own, prefix="ce-")


def reader(options: BrokerOptions) -> HttpReader:
    """The server at the address of a URL."""
    return HttpReader(options.url)
