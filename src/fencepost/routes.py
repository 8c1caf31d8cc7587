"""Where a message goes: to which of several brokers, and under which topic there.

Rules are data of a configuration; what they cannot say, a function of the user's can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from fencepost.errors import ParkError
from fencepost.message import TOPIC_CHARACTERS_MAX, Stored, is_topic

MAIN = "main"
"""The name of the broker that takes what no rule names."""

_PLACE = re.compile(r"\{(topic|key|type|header\.[A-Za-z0-9._-]+)\}")


@dataclass(frozen=True, slots=True)
class Destination:
    """A broker, by the name of its section, and the topic there; None is the message's own topic."""

    broker: str = MAIN
    topic: str | None = None


Hook = Callable[[Stored], Destination | None]
"""A function of the user's. The same message must always get the same answer; None leaves it to the rules."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``topics`` is a pattern in which * stands for any characters. ``topic`` is a template, see ``unusable``."""

    topics: str
    broker: str = MAIN
    topic: str | None = None

    def takes(self, topic: str) -> bool:
        """Whether the rule is for messages of this topic."""
        return compiled(self.topics).fullmatch(topic) is not None


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern in which * stands for any characters, to be matched with the whole of a text."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def filled(template: str, places: Mapping[str, str]) -> str:
    """A template with its places, such as {topic}, filled. What is put in may have braces of its own."""
    return re.sub(r"\{(\w+)\}", lambda place: places[place[1]], template)


def unusable(template: str) -> str:
    """Why a template of a topic cannot be used, "" where it can.

    ``{topic}``, ``{key}``, ``{type}`` and ``{header.NAME}`` stand for what a message has; the rest is text.
    """
    rest = _PLACE.sub("", template)
    if "{" in rest or "}" in rest:
        return "it has a brace that is none of {topic}, {key}, {type} and {header.NAME}"
    return "" if not rest or is_topic(rest) else "a topic has characters of A-Z a-z 0-9 . _ - / only"


class Router:
    """The rules, in their order, of which the first that takes a topic decides; before them the hook."""

    def __init__(
        self, rules: Iterable[Rule] = (), hook: Hook | None = None, brokers: Collection[str] = (MAIN,)
    ) -> None:
        self._rules, self._hook, self._brokers = list(rules), hook, frozenset(brokers)

    @property
    def is_trivial(self) -> bool:
        """Everything goes to the one broker under its own topic."""
        return not self._rules and self._hook is None

    def broker_of(self, message: Stored) -> str:
        """The broker's name. A message that cannot be routed is the main broker's, where ``topic_of`` says why."""
        try:
            return self._destination(message).broker
        except ParkError:
            return MAIN

    def topic_of(self, message: Stored) -> str:
        """The topic there. Raises ParkError."""
        template = self._destination(message).topic
        if template is None:
            return message.topic
        topic = _PLACE.sub(lambda place: _filled(place[1], message), template)
        if not is_topic(topic):
            raise ParkError(
                f"the route of message {message.id} gives the topic {topic[:300]!r}, which is not usable",
                remedy=f"1 to {TOPIC_CHARACTERS_MAX} characters of A-Z a-z 0-9 . _ - / are: change the route",
            )
        return topic

    def keeps_together(self, message: Stored) -> bool:
        """Whether all messages of this one's topic go to the same place."""
        if self._hook is not None:
            return False
        template = self._destination(message).topic or ""
        return all(place[1] == "topic" for place in _PLACE.finditer(template))

    def _destination(self, message: Stored) -> Destination:
        if self._hook is not None and (found := self._asked(self._hook, message)) is not None:
            return found
        rule = next((rule for rule in self._rules if rule.takes(message.topic)), None)
        return Destination(rule.broker, rule.topic) if rule else Destination()

    def _asked(self, hook: Hook, message: Stored) -> Destination | None:
        try:
            found: object = hook(message)
        except Exception as error:
            what = f"the route function failed for message {message.id}: {type(error).__name__}: {error}"
            raise ParkError(what, remedy="mend the function that [relay] route names") from error
        if found is None or (isinstance(found, Destination) and found.broker in self._brokers):
            return found
        what = f"the route function gave {found!r:.200} for message {message.id}"
        known = ", ".join(sorted(self._brokers))
        raise ParkError(what, remedy=f"return None or a Destination; brokers are {known}")


def _filled(place: str, message: Stored) -> str:
    found = {"topic": message.topic, "type": message.type, "key": message.key}.get(place)
    if place.startswith("header."):
        found = (message.headers or {}).get(place.removeprefix("header."))
    if found is None:
        raise ParkError(
            f"the route of message {message.id} needs its {place}, which it does not have",
            remedy="give it one, or change the route's topic",
        )
    return found
