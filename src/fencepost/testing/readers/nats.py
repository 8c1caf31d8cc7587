"""A reader of NATS JetStream. It asks for each message as the stream keeps it: no client's decoding hides anything."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any

import nats
from nats.aio.client import Client

from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen
from fencepost.testing.readers.cloudevents import seen

_TIMEOUT_S = 10.0
_NO_MESSAGE = 10037
_TOMBSTONE = "fencepost-tombstone"


class NatsReader:
    """``fencepost.testing.harness.Reader`` says what each call promises."""

    def __init__(self, options: BrokerOptions) -> None:
        self._url = options.url
        self._prefix = str(options.settings.get("subject_prefix", ""))
        self._client: Client | None = None

    async def read(self, topic: str) -> Sequence[Seen]:
        subject, found, sequence = self._prefix + topic, [], 1
        streams = (await self._ask("STREAM.NAMES", {"subject": subject})).get("streams") or []
        for stream in streams:
            while stored := await self._next(stream, subject, sequence):
                found.append(_seen(topic, stored))
                sequence = stored["seq"] + 1
        return found

    def unpublishable(self, message: Stored) -> Stored:
        return message._replace(payload=bytes(2_000_000))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _next(self, stream: str, subject: str, sequence: int) -> dict[str, Any] | None:
        answer = await self._ask(f"STREAM.MSG.GET.{stream}", {"seq": sequence, "next_by_subj": subject})
        error = answer.get("error")
        if error is not None and error["err_code"] != _NO_MESSAGE:
            raise AssertionError(f"the stream {stream} cannot be read: {error}")
        return None if error is not None else answer["message"]

    async def _ask(self, call: str, body: dict[str, object]) -> dict[str, Any]:
        if self._client is None:
            self._client = await nats.connect(self._url)
        answer = await self._client.request(f"$JS.API.{call}", json.dumps(body).encode(), timeout=_TIMEOUT_S)
        decoded: dict[str, Any] = json.loads(answer.data)
        return decoded


def _seen(topic: str, stored: dict[str, Any]) -> Seen:
    headers = list(_headers(b64decode(stored.get("hdrs", ""))))
    gone = (_TOMBSTONE, "true") in headers
    own = [(name, value) for name, value in headers if name != _TOMBSTONE and not name.startswith("Nats-")]
    return seen(topic, None if gone else b64decode(stored.get("data", "")), own, prefix="ce-")


def _headers(data: bytes) -> Iterator[tuple[str, str]]:
    for line in data.decode().split("\r\n")[1:]:
        name, separator, value = line.partition(":")
        if separator:
            yield name, value.strip(" ")


def reader(options: BrokerOptions) -> NatsReader:
    """The reader of one server."""
    return NatsReader(options)
