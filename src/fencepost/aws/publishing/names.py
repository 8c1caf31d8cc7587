"""From a topic to the name of its queue, or of its topic at SNS. Two topics never have one name."""

from __future__ import annotations

import re
from functools import lru_cache

from fencepost.aws.publishing.settings import FIFO_SUFFIX, TOPIC, Settings
from fencepost.errors import ParkError

_PART = re.compile(r"[A-Za-z0-9_-]+\Z")
_KEPT_MAX = 10_000


class Names:
    """The names of all topics."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._suffix = FIFO_SUFFIX if settings.fifo else ""
        self._of = lru_cache(_KEPT_MAX)(self._made)  # topics taken from data must not fill the memory

    def of(self, topic: str) -> str:
        """The name. Raises ParkError where this topic cannot have one."""
        return self._of(topic)

    def _made(self, topic: str) -> str:
        settings = self._settings
        if not settings.by_topic:
            return settings.template + self._suffix
        part = topic.replace(".", settings.dot)
        if not _PART.match(part):
            raise self._no_name(topic, "only A-Z a-z 0-9 . _ - can be in it")
        # What can be undone gives no two topics one name.
        if part.replace(settings.dot, ".") != topic:
            raise self._no_name(topic, f"{settings.dot!r} in names stands for a dot (the setting dot)")
        name = settings.template.replace(TOPIC, part) + self._suffix
        if len(name) > settings.name_characters_max:
            raise self._no_name(topic, f"{name[:40]!r}... has more than {settings.name_characters_max} characters")
        return name

    def _no_name(self, topic: str, why: str) -> ParkError:
        return ParkError(
            f"topic {topic[:300]!r} cannot be in a name at {self._settings.title}: {why}",
            remedy="send it to another topic, or give it another name in [routes]",
            at_once=True,
        )
