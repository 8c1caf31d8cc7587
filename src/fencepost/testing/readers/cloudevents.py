"""From the headers of CloudEvents in binary mode to what the rules compare."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.testing.harness import Seen


def seen(topic: str, payload: bytes | None, headers: Iterable[tuple[str, str]], *, prefix: str) -> Seen:
    """A message as it was read; ``prefix`` stands before each attribute's name.

    Raises ValueError where a name comes twice.
    """
    attributes: dict[str, str] = {}
    own: dict[str, str] = {}
    for name, value in headers:
        place, short = (attributes, name[len(prefix) :]) if name.startswith(prefix) else (own, name)
        if short in place:
            raise ValueError(f"the header {name!r} came twice on topic {topic!r}")
        place[short] = value
    attributes["datacontenttype"] = own.pop("content-type", "")
    return Seen(topic, payload, attributes, own)
