"""The signature of a message, by which a target knows that it comes from us (Standard Webhooks, symmetric, "v1").

With several secrets there are several signatures, so that a secret can be replaced: first both ends know the new one,
then the old one is dropped.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence

_PREFIX = "whsec_"
_KEY_BYTES_MIN = 24

Headers = list[tuple[bytes, bytes]]


def key_of(secret: str) -> bytes:
    """The key in a secret, "whsec_" and base64. Raises ValueError, in whose text the secret is not."""
    try:
        key = b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not base64") from None
    if len(key) < _KEY_BYTES_MIN:
        raise ValueError(f"it has {len(key)} bytes, fewer than {_KEY_BYTES_MIN}")
    return key


def signed(message_id: str, unix_s: int, body: bytes, keys: Sequence[bytes]) -> Headers:
    """The three headers of the signature: of this id, sent at this second, with this body."""
    text = b"%b.%d.%b" % (message_id.encode(), unix_s, body)
    signatures = [b"v1," + b64encode(hmac.new(key, text, hashlib.sha256).digest()) for key in keys]
    return [
        (b"webhook-id", message_id.encode()),
        (b"webhook-timestamp", b"%d" % unix_s),
        (b"webhook-signature", b" ".join(signatures)),
    ]
