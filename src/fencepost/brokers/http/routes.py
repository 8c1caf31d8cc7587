"""From a topic to the URL of its target, and to the secrets that belong to it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Generic, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from fencepost.errors import ConfigurationError, ParkError
from fencepost.routes import compiled
from fencepost.servers import check_password, split

TOPIC = "{topic}"
URL_CHARACTERS_MAX = 8000
"""Servers refuse longer request lines (RFC 9110 recommends that 8,000 be taken)."""

_REMEDY = "write http://host:8080/path or https://host/hooks/{topic}"
_DOTS = (".", "..")
_KEPT_MAX = 10_000

T = TypeVar("T")


class ByTopic(Generic[T]):
    """What is set for topics: for one by its name, or for those of a pattern, in which * stands for any text.

    The name itself comes first, then the pattern with the most letters.
    """

    def __init__(self, given: Mapping[str, T]) -> None:
        self._exact = {name: value for name, value in given.items() if "*" not in name}
        patterns = sorted((name for name in given if "*" in name), key=_by_letters)
        self._patterns = [(compiled(name), given[name]) for name in patterns]

    def get(self, topic: str) -> T | None:
        """What is set for this topic, None where nothing is."""
        if topic in self._exact:
            return self._exact[topic]
        return next((value for pattern, value in self._patterns if pattern.fullmatch(topic)), None)


def _by_letters(pattern: str) -> tuple[int, str]:
    return -len(pattern.replace("*", "")), pattern


class Routes:
    """The targets of all topics: ``url`` takes those that ``targets`` does not name."""

    def __init__(self, url: str, targets: Mapping[str, str]) -> None:
        self._url, self._targets = url, ByTopic(targets)
        self._url_of = lru_cache(_KEPT_MAX)(self._made)  # topics taken from data must not fill the memory
        self.is_one = not targets and TOPIC not in url
        """Every topic has the same target."""
        self.fixed = sorted({each for each in (url, *targets.values()) if TOPIC not in each})
        """The targets that are known before any topic is."""

    def url_of(self, topic: str) -> str:
        """The URL. Raises ParkError where this topic cannot have one."""
        return self._url_of(topic)

    def _made(self, topic: str) -> str:
        template = self._targets.get(topic) or self._url
        if TOPIC not in template:
            return template
        try:
            url = template.replace(TOPIC, quote(topic, safe=""))
        except UnicodeEncodeError:
            raise _no_part(topic, "it cannot be written as UTF-8") from None
        if any(segment in _DOTS for segment in urlsplit(url).path.split("/")):
            raise _no_part(topic, "it would lead to another folder")
        if len(url) > URL_CHARACTERS_MAX:
            raise _no_part(topic, f"the URL would have more than {URL_CHARACTERS_MAX:,} characters")
        return url


def _no_part(topic: str, why: str) -> ParkError:
    return ParkError(
        f"topic {topic[:300]!r} cannot be a part of a URL: {why}", remedy="send it to another topic", at_once=True
    )


def url_fault(url: str, *, template: bool = True) -> ConfigurationError | None:
    """Why this text cannot be the URL of a target, None where it can. ``template`` allows {topic} in path and query."""
    parts = split(url)
    try:
        # A server with a port and nothing behind it may be a user with half a password.
        check_password(url, in_options=parts is not None and (parts.port is None or bool(parts.path)))
    except ConfigurationError as error:
        return error
    if why := _uncallable(url, parts):
        return ConfigurationError(f"what {why} is not a URL that can be called", remedy=_REMEDY)
    return _misplaced(url, parts, template=template) if parts else None


def _uncallable(url: str, parts: SplitResult | None) -> str:
    """Why, "" where it can be called. Nothing of the URL is repeated: all of it may be a secret."""
    if not url.startswith(("http://", "https://")):
        return "does not begin with http:// or https://"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "has a blank, or a character that is not ASCII,"
    return "" if parts else "has no host, or no port from 1 to 65535 behind it,"


def _misplaced(url: str, parts: SplitResult, *, template: bool) -> ConfigurationError | None:
    if parts.fragment or url.endswith("#"):
        return ConfigurationError(f"{shown(url)} has a part behind #, which is never sent", remedy="leave it out")
    rest = url if not template else parts.netloc
    filled = f"{parts.path}?{parts.query}".replace(TOPIC, "") if template else ""
    if any(brace in f"{rest}{filled}" for brace in "{}"):
        return ConfigurationError(
            f"the URL of {shown(url)} has a brace where it means nothing",
            remedy="{topic} may stand in the path or behind the ?, and nothing else in braces",
        )
    return None


def shown(url: str) -> str:
    """A target for people. Paths and queries of webhooks are often secrets, so they are left out."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
