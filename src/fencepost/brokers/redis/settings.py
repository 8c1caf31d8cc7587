"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost import settings
from fencepost.settings import Given, setting, whole

BATCH_MAX = 2_000
_BATCH_MAX_HIGH = 10_000
"""While a script runs nobody else is served."""

MESSAGE_BYTES_MAX = 16_777_216
_MESSAGE_BYTES_HIGH = 268_435_456
"""Half of what the protocol takes as one value (proto-max-bulk-len), where nobody changed it."""


def _prefix(given: Given) -> str:
    text = settings.text(given)
    if not text or text.isprintable():
        return text
    raise given.wrong('printable text such as "shop:"')


def _field(given: Given) -> str:
    if text := _prefix(given):
        return text
    raise given.wrong('the name of a field such as "payload"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(settings.Settings):
    """What can be set in ``[broker]`` besides the URL.

    ``prefix`` stands before each topic; in a cluster it has the hash tag. ``payload_field`` is the name of the field
    with the payload. ``maxlen`` is about how many entries a stream keeps; without it all of them. ``wait_replicas`` is
    how many replicas must have a batch before it counts as published. ``batch_max`` counts messages of one script,
    ``message_bytes_max`` bytes of one message with its fields.
    """

    title = "Redis"

    prefix: str = setting("", _prefix)
    payload_field: str = setting("payload", _field)
    maxlen: int | None = setting(None, whole(1, 2**53))
    wait_replicas: int = setting(0, whole(0, 100))
    batch_max: int = setting(BATCH_MAX, whole(1, _BATCH_MAX_HIGH))
    message_bytes_max: int = setting(MESSAGE_BYTES_MAX, whole(1_000, _MESSAGE_BYTES_HIGH))
