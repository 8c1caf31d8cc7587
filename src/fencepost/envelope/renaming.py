"""Headers under other names, as readers that are there already want them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fencepost.envelope.times import Headers
from fencepost.message import Stored

if TYPE_CHECKING:
    from fencepost.envelope import Envelope

LEFT_OUT = ""
"""The new name of a header that is not to be sent."""


class Renaming:
    """Another envelope whose headers get other names. Where two would have one name, the earlier one is sent."""

    def __init__(self, inner: Envelope, names: Mapping[str, str]) -> None:
        self._inner, self._names = inner, dict(names)

    def headers(self, message: Stored) -> Headers:
        renamed: dict[str, str] = {}
        for name, value in self._inner.headers(message):
            new = self._names.get(name, name)
            if new != LEFT_OUT:
                renamed.setdefault(new, value)
        return list(renamed.items())

    def body(self, message: Stored) -> bytes | None:
        return self._inner.body(message)
