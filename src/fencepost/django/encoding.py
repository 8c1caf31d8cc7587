"""Payloads as Django people expect them: JSON that knows times, decimals, UUIDs and lazy texts."""

from __future__ import annotations

from django.core.serializers.json import DjangoJSONEncoder

from fencepost.newmessage import Encoder

_encoder = DjangoJSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _encode(payload: object) -> bytes:
    return _encoder.encode(payload).encode()


DJANGO_JSON = Encoder(_encode)
"""Compact JSON in UTF-8, by Django's own encoder: a Decimal is a text, a time has milliseconds."""
