"""The settings that SQS and SNS share, and their checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from fencepost import settings
from fencepost.errors import ConfigurationError
from fencepost.settings import Given, setting

TOPIC = "{topic}"
FIFO_SUFFIX = ".fifo"
MESSAGE_BYTES_MAX = 262_144
"""What every server takes, of one message and of one request."""
SERVICE_BYTES_MAX = 1_048_576
"""What the services take at most."""

_NAME = re.compile(r"[A-Za-z0-9_-]*\Z")
_DOT = re.compile(r"[A-Za-z0-9_-]{1,8}\Z")
_ACCOUNT = re.compile(r"(\d{12})?\Z", re.ASCII)


def _account(given: Given) -> str:
    """An environment variable that looks like a number has lost its zeros."""
    account = settings.text(given)
    if not isinstance(given.value, str):
        account = account.zfill(12)
    if _ACCOUNT.match(account):
        return account
    raise given.wrong("the 12 digits of an account")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(settings.Settings):
    """What can be set in ``[broker]`` besides the URL, for both services.

    ``dot`` stands for each dot of a topic in names. ``account`` is the one that has the queues or topics, where that is
    another one than the relay's. ``message_bytes_max`` is the limit of a message and of a request. ``connections`` are
    used at once. A batch takes ``publish_s`` at most, None for most of what the lease allows.
    """

    template_name: ClassVar[str]
    """The setting with the template of names."""
    name_characters_max: ClassVar[int]

    fifo: bool = True
    dot: str = "--"
    account: str = setting("", _account)
    message_bytes_max: int = setting(MESSAGE_BYTES_MAX, settings.whole(1, SERVICE_BYTES_MAX))
    connections: int = 16
    publish_s: float | None = None

    @property
    def template(self) -> str:
        """The template of names, without the suffix of FIFO."""
        return str(getattr(self, self.template_name)).removesuffix(FIFO_SUFFIX)

    @property
    def by_topic(self) -> bool:
        """True where each topic has a place of its own."""
        return TOPIC in self.template

    def unfit(self) -> Iterator[tuple[str, str | ConfigurationError]]:
        """See ``fencepost.settings``."""
        name, rest = self.template_name, self.template.replace(TOPIC, "")
        given = getattr(self, name)
        if given.endswith(FIFO_SUFFIX) and not self.fifo:
            what = f"the {self.title} setting {name} = {given!r} is a name of FIFO, and fifo is false"
            yield name, ConfigurationError(what, remedy="set fifo = true, or leave .fifo out")
        elif not _NAME.match(rest) or not self.template or len(rest) > self.name_characters_max:
            yield name, f"a text of A-Z a-z 0-9 _ -, in which {TOPIC} may stand"
        if not _DOT.match(self.dot):
            yield "dot", "1 to 8 characters of A-Z a-z 0-9 _ -"
