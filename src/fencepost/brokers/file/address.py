"""Where lines go: from the URL and a topic to a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import quote, unquote, urlsplit

from fencepost.errors import ConfigurationError, ParkError

TOPIC = "{topic}"
_DOTS = (".", "..")
_REMEDY = "write file:///folder/{topic}.jsonl, file:///folder/all.jsonl, or stdout: for standard output"


@dataclass(frozen=True, slots=True)
class Address:
    """``template`` is a path in which {topic} may stand; "" is standard output."""

    template: str

    @classmethod
    def of(cls, url: str) -> Address:
        """The address in a URL. Raises ConfigurationError."""
        if url in ("stdout:", "stdout://"):
            return cls("")
        parts = urlsplit(url)
        path = unquote(parts.path)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost") or path in ("", "/"):
            raise ConfigurationError("the URL is not that of a file", remedy=_REMEDY)
        if parts.query or parts.fragment or url[-1] in "?#":
            raise ConfigurationError(
                f"{url!r} has a part behind ? or #", remedy="write %3F and %23 where they belong to the name"
            )
        if path.endswith("/") or any(brace in path.replace(TOPIC, "") for brace in "{}\0"):
            raise ConfigurationError(f"{url!r} does not name a file", remedy=_REMEDY)
        return cls(path)

    @property
    def is_stdout(self) -> bool:
        """Lines go to standard output."""
        return not self.template

    @property
    def is_one(self) -> bool:
        """Every topic has the same file."""
        return TOPIC not in self.template

    def path(self, topic: str) -> str:
        """The file of a topic, whose name is percent-encoded. Raises ParkError where it cannot be a part of a path."""
        if self.is_one:
            return self.template
        try:
            path = self.template.replace(TOPIC, quote(topic, safe=""))
        except UnicodeEncodeError as error:
            raise _no_part(topic, "it cannot be written as UTF-8") from error
        if any(part in _DOTS for part in path.split("/")):
            raise _no_part(topic, "it would lead to another folder")
        if any(len(part.encode()) > _NAME_BYTES_MAX for part in PurePath(path).parts):
            raise _no_part(topic, f"the name of the file would have more than {_NAME_BYTES_MAX} bytes")
        return path


_NAME_BYTES_MAX = 255
"""Of a part of a path, on the file systems of Linux and macOS."""


def _no_part(topic: str, why: str) -> ParkError:
    return ParkError(
        f"topic {topic[:300]!r} cannot be a part of a path: {why}", remedy="send it to another topic", at_once=True
    )
