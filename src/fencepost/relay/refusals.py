"""Messages that cannot go: which are parked, which wait for another try, and which topics are held back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.errors import ParkError
from fencepost.events import MessageFailed, MessageParked, Observer
from fencepost.message import Entity, entity_of
from fencepost.ports import Failure, Session
from fencepost.relay.known import Known
from fencepost.relay.order import Order
from fencepost.relay.retry import Backoff, Circuit


class Refusals:
    """Those of one lane. ``attempts_max`` is None where nothing is ever parked."""

    def __init__(
        self,
        lane: str,
        known: Known,
        circuit: Circuit,
        backoff: Backoff,
        observer: Observer,
        *,
        attempts_max: int | None,
    ) -> None:
        self._lane, self._known, self._circuit, self._backoff = lane, known, circuit, backoff
        self._observer, self._attempts_max = observer, attempts_max

    async def set_aside(self, session: Session, order: Order, failures: Sequence[Failure]) -> None:
        """Park what has had its attempts; let the key of the rest wait, or its topic."""
        failures = self._hold_topics(order, failures)
        parked: list[Failure] = []
        again: dict[Entity, Failure] = {}
        for failure in failures:
            entity = entity_of(failure.message)
            if entity in again:
                continue  # it waits behind one of its key, and has not had a try of its own
            if self._is_to_be_parked(failure):
                parked.append(failure)
            else:
                again[entity] = failure
        if parked:
            self._known.done([f.message for f in parked])
            await session.park([(f.message, str(f.error)) for f in parked])
        if again:
            await session.failed([(f.message, str(f.error)) for f in again.values()])
        for failure in parked:
            self._observer(MessageParked(**self._facts(failure)))
        for failure in again.values():
            delay_s = self._backoff.delay_s(failure.message.attempts + 1)
            order.wait(failure.message, delay_s)
            self._observer(MessageFailed(**self._facts(failure), delay_s=delay_s))

    def _hold_topics(self, order: Order, failures: Sequence[Failure]) -> Sequence[Failure]:
        """Those that are not about a whole topic. The others are the circuit's matter: nothing is written."""
        held = {failure.message.topic: failure for failure in failures if failure.whole_topic}
        for topic, failure in held.items():
            order.hold(topic, self._circuit.topic_failed(topic, failure.error, failure.pause_s))
        return [failure for failure in failures if failure.message.topic not in held]

    def _is_to_be_parked(self, failure: Failure) -> bool:
        error = failure.error
        if self._attempts_max is None or not isinstance(error, ParkError):
            return False
        return error.at_once or failure.message.attempts + 1 >= self._attempts_max

    def _facts(self, failure: Failure) -> dict[str, Any]:
        message = failure.message
        return {
            "lane": self._lane,
            "message_id": message.id,
            "topic": message.topic,
            "attempts": message.attempts + 1,
            "cause": str(failure.error),
        }
