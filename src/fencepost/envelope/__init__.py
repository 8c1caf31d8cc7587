"""The wire envelope: what of a message becomes headers and what becomes the body, in the formats of docs/wire.md."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Protocol

from fencepost.envelope.cloudevents import Binary
from fencepost.envelope.lean import Lean
from fencepost.envelope.renaming import LEFT_OUT, Renaming
from fencepost.envelope.structured import STRUCTURED, Structured
from fencepost.envelope.times import Headers, TimeText, rfc3339
from fencepost.message import Stored

__all__ = ["LEFT_OUT", "STRUCTURED", "Envelope", "Format", "Headers", "TimeText", "envelope", "rfc3339"]


class Format(enum.Enum):
    """How a message looks on the wire."""

    CLOUDEVENTS_BINARY = "cloudevents-binary"
    """The attributes of CloudEvents 1.0 as headers, the payload as it is."""
    CLOUDEVENTS_STRUCTURED = "cloudevents-structured"
    """One JSON object with attributes and payload."""
    PLAIN = "plain"
    """The headers ``id`` and ``version``, the payload as it is."""
    DEBEZIUM = "debezium"
    """What Debezium's outbox router writes by default: the header ``id``, the payload as it is."""


class Envelope(Protocol):
    """Makes what goes on the wire. May be shared between threads."""

    def headers(self, message: Stored) -> Headers:
        """The headers of one message as (name, text), each name once; the application's own headers last."""
        ...

    def body(self, message: Stored) -> bytes | None:
        """The bytes of its body; None for a tombstone, which the broker's plug-in writes in its own way."""
        ...


def envelope(form: Format, source: str, prefix: str, header_map: Mapping[str, str] | None = None) -> Envelope:
    """The envelope of a format.

    ``source`` is the CloudEvents source (a URI reference that names the service). ``prefix`` stands before each
    attribute's name: ``ce_`` on Kafka, ``ce-`` on NATS and HTTP, as the protocol bindings of CloudEvents say.
    ``header_map`` gives headers other names, or leaves them out (LEFT_OUT).
    """
    made: Envelope
    if form is Format.CLOUDEVENTS_STRUCTURED:
        made = Structured(source, prefix)
    elif form is Format.CLOUDEVENTS_BINARY:
        made = Binary(source, prefix)
    else:
        made = Lean(with_version=form is Format.PLAIN)
    return Renaming(made, header_map) if header_map else made
