"""A reader of files of JSON lines, which are CloudEvents: each line by itself."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from fencepost.message import Stored
from fencepost.ports import BrokerOptions
from fencepost.testing.harness import Seen

_NO_ATTRIBUTES = {"data", "data_base64", "headers", "topic"}
_DATA = b',"data":'


class FileReader:
    """``fencepost.testing.harness.Reader`` says what each call promises."""

    def __init__(self, url: str) -> None:
        self._template = unquote(urlsplit(url).path)

    async def read(self, topic: str) -> Sequence[Seen]:
        file = Path(self._template.replace("{topic}", quote(topic, safe="")))
        lines = await asyncio.to_thread(_lines, file)
        return [seen for line in lines if (seen := _seen(line)).topic == topic]

    def unpublishable(self, message: Stored) -> Stored:
        return message._replace(payload=bytes(20_000_000))

    async def close(self) -> None:
        """Nothing is open."""


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().split(b"\n")[:-1] if file.exists() else []


def _seen(line: bytes) -> Seen:
    event = json.loads(line, parse_int=str, parse_float=str)
    attributes = {name: value for name, value in event.items() if name not in _NO_ATTRIBUTES}
    payload = b64decode(event["data_base64"]) if "data_base64" in event else None
    if "data" in event:  # as it was added: the rest of the line, but for the brace
        payload = line[line.index(_DATA) + len(_DATA) : -1]
    headers = json.loads(event.get("headers", "{}"))
    return Seen(event["topic"], payload, attributes, headers)


def reader(options: BrokerOptions) -> FileReader:
    """The reader of the files of a URL."""
    return FileReader(options.url)
