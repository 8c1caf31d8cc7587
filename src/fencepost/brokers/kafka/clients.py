"""Making librdkafka's clients, and learning whether a server can be reached at all.

librdkafka logs every failed attempt to connect, many in a second. What matters of it arrives as an error; the rest goes
to this module's logger at level DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from threading import Thread
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from fencepost.brokers.kafka.deadline import Deadline
from fencepost.brokers.kafka.faults import ADVERTISED, CREDENTIALS, cause, fault
from fencepost.brokers.kafka.settings import Options, Settings
from fencepost.errors import ConfigurationError, DeadlineExceeded, FencepostError

C = TypeVar("C")

KEEPS = "fencepost-kafka-awaits-answer"
"""The name of threads that keep a client until its last answer."""
_LOG = logging.getLogger(__name__)
_TOGETHER = "change the options below the URL of the broker; docs/kafka.md has those for TLS and SASL"
_LOOK_S = 0.05
_PATIENCE_S = 2.0
"""How long "all brokers are down" is not believed: a name may have several addresses of which one answers."""


class _Quiet:
    """A logger that says everything at DEBUG."""

    def log(self, _level: int, text: str, *arguments: object) -> None:
        _LOG.debug(text, *arguments)


class Clients:
    """Makes clients of one cluster. Raises ConfigurationError, without any secret, where an option is not usable."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def producer(
        self, transactional_id: str, batch_bytes: int | None, failed: Callable[[KafkaError, Any], None]
    ) -> Producer:
        """A producer of transactions. ``failed`` is told of each message that could not be delivered."""
        options = self._settings.producer(transactional_id, batch_bytes)
        return self._make(Producer, {**options, "on_delivery": failed})

    def consumer(self) -> Consumer:
        """A consumer for receipts."""
        return self._make(Consumer, self._settings.consumer())

    def admin(self) -> AdminClient:
        """A client for topics."""
        return self._make(AdminClient, self._settings.admin())

    def check(self, deadline: Deadline) -> None:
        """Reach the cluster. Raises AccessDenied as soon as it refuses us, RetryError where it cannot be reached."""
        self.producer("fencepost", None, _ignore)  # all options together, before anything depends on them
        trouble = _Trouble()
        client = self._make(AdminClient, {**self._settings.admin(), "error_cb": trouble.note})
        answer = client.describe_cluster(request_timeout=deadline.left_s())
        patience = deadline.sooner(_PATIENCE_S)
        while not deadline.over:
            try:
                answer.result(_LOOK_S)
                return
            except KafkaException as exception:
                trouble.note(cause(exception))
                break
            except FutureTimeoutError:
                client.poll(0)
            if trouble.refused or (trouble.all_down and patience.over):
                break
        Thread(target=_keep, args=(client, answer), name=KEEPS, daemon=True).start()
        raise trouble.verdict()

    def _make(self, kind: Callable[..., C], options: Options | dict[str, Any]) -> C:
        try:
            return kind(dict(options), logger=_Quiet())
        except KafkaException as exception:
            text = self._settings.hide(cause(exception).str())
            raise ConfigurationError(f"Kafka does not take the settings: {text}", remedy=_TOGETHER) from None


class _Trouble:
    """What a client says about its connections while it gets no answer."""

    def __init__(self) -> None:
        self.all_down = False
        self.refused = False
        self._last: KafkaError | None = None

    def note(self, error: KafkaError) -> None:
        """Keep what says most: a refusal rather than a failed connection, and that rather than no answer."""
        self.all_down |= error.code() == KafkaError._ALL_BROKERS_DOWN
        vague = error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
        if error.code() in CREDENTIALS or (not self.refused and not (vague and self._last is not None)):
            self._last = error
        self.refused |= error.code() in CREDENTIALS

    def verdict(self) -> FencepostError:
        """The error to raise."""
        if self._last is None:
            return DeadlineExceeded("Kafka accepted the connection and did not answer", remedy=ADVERTISED)
        return fault(self._last, "connecting")


def _keep(_client: AdminClient, answer: Future[Any]) -> None:
    """Until the request has ended, in its own time: an answer that comes while its client is ended would make
    librdkafka abort the process.
    """
    answer.exception()


def _ignore(*_: object) -> None:
    """For what is told by other ways too."""
