"""Encoding batches: every message of a topic with an encoder by the latest version of its subject."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from fencepost.brokers.kafka.encoding.payload import Misfit
from fencepost.brokers.kafka.encoding.settings import NONE, EncoderSettings
from fencepost.clock import Clock
from fencepost.errors import (
    FencepostError,
    FixError,
    MissingExtra,
    ParkError,
    RetryError,
    SchemaMissing,
    raise_together,
)
from fencepost.message import Stored
from fencepost.ports import Failure

_TOPICS_KEPT_MAX = 10_000
_REMEDY = "register a schema that fits, or change what the application adds; then retry the parked message"


class Encoder(Protocol):
    """Encodes payloads by one version of one subject."""

    content_type: str
    version: str
    """The subject and its version, in words."""

    def encode(self, message: Stored) -> bytes:
        """The body of a message that is no tombstone. Raises Misfit."""
        ...


@dataclass(slots=True)
class _Known:
    encoder: Encoder
    looked_up: float
    confirmed: bool = True
    """False where the registry was asked then and did not answer."""


class Encoders:
    """All encoders of a broker, shared by its lanes. Every method but ``encodes`` may block.

    Raises MissingExtra or ConfigurationError where the registry's client cannot be had.
    """

    def __init__(self, settings: EncoderSettings, clock: Clock, *, create: bool) -> None:
        self._settings, self._clock, self._create = settings, clock, create
        _check_libraries()
        from fencepost.brokers.kafka.encoding import forms, registry

        self._registry, self._forms = registry.Registry(settings), forms
        self._lock = Lock()  # one look-up at a time, whose answer the others take
        self._known: dict[tuple[str, str], _Known] = {}
        self._kinds: dict[str, str] = {}
        self._registered: set[str] = set()

    def encodes(self, topic: str) -> bool:
        """Whether a topic has an encoder."""
        return self._kind(topic) != NONE

    def check(self) -> None:
        """Raise FixError where the registry refuses us. One that cannot be reached now may be there later."""
        try:
            self._registry.check()
        except RetryError:
            return

    def rehearse(self) -> None:
        """Raise what a relay would meet, of the topics that are named without a *. Registers nothing."""
        self._registry.check()
        errors: list[FixError] = []
        for topic in self._settings.topics if self._settings.strategy == "topic" else ():
            try:
                self._look_up(self._settings.subject(topic, ""), self._kind(topic))
            except SchemaMissing as error:
                if not (self._create and topic in self._settings.files):
                    errors.append(error)
            except FixError as error:
                errors.append(error)
        raise_together(errors, f"the schema registry {self._settings.place}, while ")

    def encode(self, batch: Sequence[Stored]) -> tuple[list[Stored], list[Failure]]:
        """The batch, encoded where its topics are; and the messages that cannot go, with the reasons.

        Where a topic's schema cannot be had, all of its messages wait: nothing is parked for it.
        """
        return _Encoding(self, batch).run()

    def close(self) -> None:
        """Close the connections. Never raises."""
        self._registry.close()

    def of(self, message: Stored, unanswered: RetryError | None = None) -> Encoder | None:
        """The encoder of a message, None where it goes as it is. Raises RetryError or FixError.

        While the registry does not answer, what is known goes on. ``unanswered``: it has just not answered, and is not
        asked again.
        """
        kind = self._kind(message.topic)
        if kind == NONE or message.payload is None:
            return None
        subject, now = self._settings.subject(message.topic, message.type), self._clock.monotonic()
        known = self._known.get((subject, kind))
        if known is not None and now - known.looked_up < self._settings.latest_s:
            return known.encoder
        try:
            if unanswered is not None:
                raise unanswered
            return self._again(subject, message.topic, kind, since=now)
        except RetryError:
            if known is None:
                raise
            known.looked_up, known.confirmed = now, False
            return known.encoder

    def newer(self, message: Stored, since: float) -> Encoder:
        """The encoder of a message that the known one refuses: looked up again, unless that was after ``since``.

        Raises RetryError or FixError.
        """
        subject = self._settings.subject(message.topic, message.type)
        return self._again(subject, message.topic, self._kind(message.topic), since=since)

    def now(self) -> float:
        """A moment, for ``newer``."""
        return self._clock.monotonic()

    def _kind(self, topic: str) -> str:
        kind = self._kinds.get(topic)
        if kind is None:
            if len(self._kinds) >= _TOPICS_KEPT_MAX:  # topics taken from data must not fill the memory
                self._kinds.clear()
            kind = self._kinds[topic] = self._settings.kind_of(topic)
        return kind

    def _again(self, subject: str, topic: str, kind: str, since: float) -> Encoder:
        """Look a subject up, unless another lane has done that after ``since``."""
        with self._lock:
            known = self._known.get((subject, kind))
            if known is not None and known.looked_up >= since and known.confirmed:
                return known.encoder
            try:
                self._register(subject, topic, kind)
                encoder = self._look_up(subject, kind)
            except FixError:
                self._known.pop((subject, kind), None)
                raise
            if len(self._known) >= _TOPICS_KEPT_MAX:
                self._known.clear()
            self._known[subject, kind] = _Known(encoder, self._clock.monotonic())
            return encoder

    def _register(self, subject: str, topic: str, kind: str) -> None:
        file = self._settings.files.get(topic)
        if file is not None and self._create and subject not in self._registered:
            self._registry.register(subject, kind, file)
            self._registered.add(subject)

    def _look_up(self, subject: str, kind: str) -> Encoder:
        latest = self._registry.latest(subject, kind)
        known = self._known.get((subject, kind))
        if known is not None and known.encoder.version == self._forms.name_of(subject, latest):
            return known.encoder
        return self._forms.encoder(kind, subject, latest, self._registry, drops_unknown=self._settings.drops_unknown)


class _Encoding:
    """One batch."""

    def __init__(self, encoders: Encoders, batch: Sequence[Stored]) -> None:
        self._encoders, self._batch = encoders, batch
        self._began = encoders.now()
        self._troubles: dict[str, FencepostError] = {}
        self._unanswered: RetryError | None = None

    def run(self) -> tuple[list[Stored], list[Failure]]:
        encoded: list[Stored] = []
        failures: list[Failure] = []
        for message in self._batch:
            try:
                encoded.append(self._one(message))
            except ParkError as error:
                failures.append(Failure(message, error))
            except (FixError, RetryError) as error:
                self._troubles[message.topic] = error
        # A topic is in trouble with its first message, or with a later one that has a subject of its own.
        failures = [failure for failure in failures if failure.message.topic not in self._troubles]
        held = [
            Failure(message, self._troubles[message.topic], whole_topic=True)
            for message in self._batch
            if message.topic in self._troubles
        ]
        return encoded, [*failures, *held]

    def _one(self, message: Stored) -> Stored:
        if message.topic in self._troubles:
            raise self._troubles[message.topic]
        encoder = self._encoder(message)
        if encoder is None:
            return message
        try:
            try:
                body = encoder.encode(message)
            except Misfit:
                encoder = self._newer(message)
                body = encoder.encode(message)
        except Misfit as misfit:
            what = f"the payload does not fit {encoder.version}: {misfit}"
            raise ParkError(what, remedy=_REMEDY, at_once=True) from None
        return message._replace(payload=body, content_type=encoder.content_type)

    def _encoder(self, message: Stored) -> Encoder | None:
        """A registry that does not answer is not asked again for each subject of the batch."""
        try:
            return self._encoders.of(message, self._unanswered)
        except RetryError as error:
            self._unanswered = error
            raise

    def _newer(self, message: Stored) -> Encoder:
        if self._unanswered is not None:
            raise self._unanswered
        try:
            return self._encoders.newer(message, self._began)
        except RetryError as error:
            self._unanswered = error
            raise


def _check_libraries() -> None:
    try:
        importlib.import_module("fencepost.brokers.kafka.encoding.forms")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fencepost"):
            raise
        raise MissingExtra(
            f"encoders need the library {error.name!r}, which is not installed",
            remedy='pip install "fencepost[kafka-schemas]"',
        ) from error
