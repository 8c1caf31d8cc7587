"""From a message to a request: CloudEvents' HTTP binding, and the headers that let a target recognise a repeat."""

from __future__ import annotations

import re
from base64 import b64encode
from urllib.parse import unquote, urlsplit

import httpx

from fencepost.brokers.http.routes import ByTopic
from fencepost.brokers.http.settings import Settings
from fencepost.brokers.http.signature import Headers, signed
from fencepost.clock import Clock
from fencepost.envelope import Envelope
from fencepost.errors import ParkError
from fencepost.handoffs import not_carried
from fencepost.message import Stored

PREFIX = "ce-"
TOMBSTONE = (b"fencepost-tombstone", b"true")
"""The header of a message whose payload is None. Its body is empty, as that of a message with an empty payload."""

_ENCODED = re.compile(r"[^\x21\x23\x24\x26-\x7e]")
"""What the binding writes as percent and hexadecimal digits: blanks, quotes, percent signs, all but printable ASCII."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OF_HTTP = re.compile(
    r"(?i)(proxy-.*|webhook-(id|timestamp|signature)|fencepost-(topic|tombstone)|accept-encoding|authorization|connection"
    r"|content-length|cookie|expect|host|http2-settings|idempotency-key|keep-alive|te|trailer|transfer-encoding|upgrade"
    r"|user-agent)\Z"
)
"""Headers with which a message would change the request itself, or pass for another one."""


class Encoder:
    """Makes requests. ``target`` is what a request is sent to, without credentials."""

    def __init__(self, envelope: Envelope, settings: Settings, clock: Clock) -> None:
        self._envelope, self._clock = envelope, clock
        self._secrets, self._tokens = ByTopic(settings.signing_secrets), ByTopic(settings.bearer_token)

    def request(self, message: Stored, url: str) -> httpx.Request:
        """The request, to be sent now: its signature has the time in it. Raises ParkError."""
        payload = self._envelope.body(message)
        body = payload or b""
        headers = self._headers(message)
        if payload is None:
            headers.append(TOMBSTONE)
        headers += [(b"user-agent", b"fencepost"), (b"idempotency-key", message.id.encode())]
        if authorization := self._authorization(message.topic, url):
            headers.append((b"authorization", authorization))
        if keys := self._secrets.get(message.topic):
            headers += signed(message.id, int(self._clock.now().timestamp()), body, keys)
        try:
            return httpx.Request("POST", _without_credentials(url), headers=headers, content=body)
        except httpx.InvalidURL as error:
            raise _not_carried(message, f"its URL cannot be called ({error})") from error

    def _headers(self, message: Stored) -> Headers:
        topic = _ENCODED.sub(_percent, _encodable(message, message.topic))
        found = {"fencepost-topic": (b"fencepost-topic", topic.encode())}
        for name, value in self._envelope.headers(message):
            lower = name.lower()
            if not _NAME.match(name) or _OF_HTTP.match(name):
                raise _not_carried(message, f"the header {name[:300]!r} belongs to HTTP, or cannot be one")
            if lower in found:
                raise _not_carried(message, f"it has the header {name[:300]!r} twice, capitals aside")
            found[lower] = (name.encode(), _value(message, name, value))
        return list(found.values())

    def _authorization(self, topic: str, url: str) -> bytes | None:
        if token := self._tokens.get(topic):
            return b"Bearer " + token.encode()
        parts = urlsplit(url)
        if parts.username is None:
            return None
        return b"Basic " + b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode())


def _value(message: Stored, name: str, value: str) -> bytes:
    """Attributes as the binding says; every other header as it is, in UTF-8."""
    text = _encodable(message, value)
    if name.startswith(PREFIX):
        return _ENCODED.sub(_percent, text).encode()
    if _CONTROL.search(text) or text != text.strip():
        raise _not_carried(message, f"the header {name[:300]!r} has a control character or a blank at an end")
    return text.encode()


def _encodable(message: Stored, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _not_carried(message, "a header cannot be written as UTF-8") from error
    return text


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def _without_credentials(url: str) -> str:
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}"


def _not_carried(message: Stored, why: str) -> ParkError:
    remedy = "change the message, or name the header otherwise in [broker.header_map]"
    return not_carried("HTTP", message, why, remedy=remedy)
