"""Which texts MQTT can carry, as topics and as anything else."""

from __future__ import annotations

import re

TEXT_BYTES_MAX = 65_535
"""Of every text in a packet: topics, names and values of user properties, the content type."""

# Control characters and what Unicode has set apart for nobody: servers end the connection where they see them. The
# mark U+FEFF may be there, and readers that use the library paho end theirs.
_SET_APART = "".join(chr(plane + last) for plane in range(0, 0x110000, 0x10000) for last in (0xFFFE, 0xFFFF))
_FORBIDDEN = re.compile(f"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufeff\ud800-\udfff{_SET_APART}]")


def text_fault(text: str) -> str:
    """Why a text cannot be carried: the end of a sentence that begins with it. "" where it can."""
    found = _FORBIDDEN.search(text)
    if found:
        return f"has the character U+{ord(found[0]):04X}"
    if len(text) * 4 > TEXT_BYTES_MAX and len(text.encode()) > TEXT_BYTES_MAX:
        return f"has {len(text.encode()):,} bytes of at most {TEXT_BYTES_MAX:,}"
    return ""


def topic_fault(topic: str) -> str:
    """The same of a topic that is published to."""
    if not topic:
        return "is empty"
    if "+" in topic or "#" in topic:
        return "has + or # in it, which stand for other topics"
    if topic.startswith("$"):
        return "begins with $, as only topics of the server's own do"
    return text_fault(topic)
