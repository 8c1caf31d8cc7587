"""From a message to its line: a CloudEvent as JSON with the topic and the headers in it, or another format's parts.

A JSON payload stands in the line as it was added, except that line breaks between its tokens become blanks.
"""

from __future__ import annotations

import json
from base64 import b64encode

from fencepost.envelope import Envelope, Format
from fencepost.errors import ParkError
from fencepost.message import Stored

PREFIX = "ce-"
_BREAKS = bytes.maketrans(b"\r\n", b"  ")
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Lines:
    """Makes lines, with the line feed at their end, of at most ``bytes_max`` bytes."""

    def __init__(self, envelope: Envelope, form: Format, bytes_max: int) -> None:
        self._envelope, self._bytes_max = envelope, bytes_max
        self._make = self._event if form is Format.CLOUDEVENTS_STRUCTURED else self._parts

    def line(self, message: Stored) -> bytes:
        """The line of one message. Raises ParkError."""
        try:
            line = self._make(message).translate(_BREAKS) + b"\n"
        except UnicodeEncodeError as error:
            what = f"message {message.id} has text that cannot be written as UTF-8"
            raise ParkError(what, remedy="change the message", at_once=True) from error
        if len(line) > self._bytes_max:
            raise ParkError(
                f"the line of message {message.id} has {len(line):,} bytes, line_bytes_max is {self._bytes_max:,}",
                remedy="store the large part elsewhere, or raise line_bytes_max if readers take it",
                at_once=True,
            )
        return line

    def _event(self, message: Stored) -> bytes:
        """The event of CloudEvents, behind two extensions: the topic, and the headers, which are an object as text."""
        headers = dict(self._envelope.headers(message))
        content_type = headers.pop("content-type", None)
        body = self._envelope.body(message)
        if body is None:  # a tombstone: an event without data, whose attributes come as headers
            attributes = {name: headers.pop(name) for name in tuple(headers) if name.startswith(PREFIX)}
            event = {name.removeprefix(PREFIX): value for name, value in attributes.items()}
            body = _encode(event | ({"datacontenttype": content_type} if content_type else {})).encode()
        more = {"topic": message.topic, **({"headers": _encode(headers)} if headers else {})}
        return _encode(more)[:-1].encode() + b"," + body[1:]

    def _parts(self, message: Stored) -> bytes:
        """Topic, key, headers and payload, of a format whose body is not JSON by itself."""
        parts: dict[str, object] = {"topic": message.topic, "key": message.key}
        parts["headers"] = dict(self._envelope.headers(message))
        body = self._envelope.body(message)
        start = _encode(parts)[:-1].encode()
        if body is None:
            return start + b"}"
        if _is_json(body):
            return b'%b,"data":%b}' % (start, body)
        return b'%b,"data_base64":"%b"}' % (start, b64encode(body))


def _refuse(constant: str) -> None:
    """NaN and the infinities are not JSON, though Python reads them."""
    raise ValueError(constant)


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body.decode("utf-8"), parse_constant=_refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True
