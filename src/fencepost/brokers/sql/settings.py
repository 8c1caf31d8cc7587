"""The plug-in's own settings: what they are called, what they mean, and their check."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fencepost import settings
from fencepost.settings import Given, setting

_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,39})?\Z")


def _name(given: Given) -> str:
    if isinstance(given.value, str) and _NAME.match(given.value):
        return given.value
    raise given.wrong("a name of A-Z a-z 0-9 and _, 40 characters at most")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(settings.Settings):
    """What can be set in ``[broker]`` besides the URL.

    ``prefix`` stands before the names of the three tables: messages, messages_lane, messages_receipt. ``schema`` is
    where they are; "" is where the connection looks by itself.
    """

    title = "inbox table"

    prefix: str = setting("fencepost_", _name)
    schema: str = setting("", _name)
