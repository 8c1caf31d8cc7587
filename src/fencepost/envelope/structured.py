"""CloudEvents 1.0 in structured mode: one JSON object with the attributes and the payload.

A JSON payload becomes the member ``data``, byte for byte as it was added: it is put in as text, so that numbers of
thirty digits, repeated keys and the like arrive as they are. Anything else becomes ``data_base64``.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode

from fencepost.envelope.cloudevents import Binary
from fencepost.envelope.times import Headers, TimeText
from fencepost.message import Stored

STRUCTURED = "application/cloudevents+json; charset=UTF-8"
"""The content type."""

TRACE = ("traceparent", "tracestate")
"""Headers of W3C Trace Context; they are attributes too (CloudEvents' extension for distributed tracing)."""

_JSON = re.compile(r"(?i)[a-z0-9.+-]+/([a-z0-9.-]+\+)?json\s*(;|\Z)")
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Structured:
    """``fencepost.envelope.Envelope`` and ``envelope`` say what is promised.

    The application's own headers stay headers. A tombstone has no body, so it is sent in binary mode.
    """

    def __init__(self, source: str, prefix: str) -> None:
        self._source = source
        self._time_text = TimeText()
        self._binary = Binary(source, prefix)

    def headers(self, message: Stored) -> Headers:
        if message.payload is None:
            return self._binary.headers(message)
        return [("content-type", STRUCTURED), *(message.headers or {}).items()]

    def body(self, message: Stored) -> bytes | None:
        payload = message.payload
        if payload is None:
            return None
        # Encoded without its closing brace, so that the payload can follow as it is.
        attributes = _encode(self._attributes(message))[:-1].encode()
        if _is_json(message.content_type, payload):
            return b'%b,"data":%b}' % (attributes, payload)
        return b'%b,"data_base64":"%b"}' % (attributes, b64encode(payload))

    def _attributes(self, message: Stored) -> dict[str, str | int]:
        attributes: dict[str, str | int] = {
            "specversion": "1.0",
            "id": message.id,
            "source": self._source,
            "type": message.type,
            "time": self._time_text(message.occurred_us),
            "datacontenttype": message.content_type,
        }
        if message.key is not None:
            attributes["subject"] = message.key
        if message.version is not None:
            # A number of CloudEvents has 32 bits, so a version is text here as it is in a header.
            attributes["entityversion"] = str(message.version)
        if message.in_doubt:
            attributes["possiblerepeat"] = "true"
        attributes |= {name: message.headers[name] for name in TRACE if message.headers and name in message.headers}
        return attributes


def _is_json(content_type: str, payload: bytes) -> bool:
    """Whether the payload can stand inside of a JSON object."""
    if not _JSON.match(content_type):
        return False
    try:
        json.loads(payload.decode("utf-8"), parse_constant=_refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    """NaN and the infinities are not JSON, though Python reads them."""
    raise ValueError(constant)
