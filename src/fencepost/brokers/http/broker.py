"""The broker: the targets of all topics, and handoffs that send each message to its own."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence

from fencepost.brokers.http.client import pool, reach, tls_context
from fencepost.brokers.http.encode import PREFIX, Encoder
from fencepost.brokers.http.routes import Routes, url_fault
from fencepost.brokers.http.settings import Settings
from fencepost.brokers.http.target import Chain, Pace, Progress, Target
from fencepost.errors import FixError, ParkError, Unavailable
from fencepost.handoffs import PlainHandoff, publish_s
from fencepost.message import Entity, Stored, entity_of
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Failure, Lane, Outcome, Term

REASON = "a target acknowledges each message by itself, and keeps no receipts that could be read back"

_BEGIN_SHARE = 0.6
"""Of the time of a batch: in the rest what has begun is answered."""

_GRACE_S = 1.0
"""Longer than what reading the rest of an answer may take, after the time of a batch is up."""

_IDLE_S = 10.0
"""A target that was not used for so long is forgotten, with its connections."""


class HttpBroker:
    """See fencepost.ports.Broker."""

    def __init__(self, options: BrokerOptions) -> None:
        """Raises ConfigurationError."""
        if fault := url_fault(options.url):
            raise fault
        self._options, self._settings = options, Settings.read(options.settings)
        self._routes = Routes(options.url, self._settings.targets)
        self._encoder = Encoder(options.envelope(PREFIX), self._settings, options.clock)
        self._tls = tls_context((options.url, *self._settings.targets.values()), self._settings)
        self._targets: dict[str, Target] = {}
        self._publish_s = publish_s(self._settings.publish_s, options)
        self._swept_at = options.clock.monotonic()
        self._handoffs: set[PlainHandoff] = set()
        self._sending: set[asyncio.Task[Outcome]] = set()

    async def open(self) -> Capabilities:
        """See Broker. No target is asked: one that is down must not keep the others' messages back."""
        return Capabilities(delivery=Delivery.PLAIN, reason=REASON, batch_max=self._settings.batch_max)

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """See Broker. There is nothing to prepare."""

    async def rehearse(self, lane: Lane) -> None:
        """Raise the first thing that is wrong with a target whose URL is known; send nothing."""
        places = [self._settings.proxy] if self._settings.proxy else self._routes.fixed
        found = await asyncio.gather(*[reach(url, self._tls, self._options.timeout_s) for url in places])
        errors = sorted((e for e in found if e is not None), key=lambda e: not isinstance(e, FixError))
        for error in errors:
            raise error

    async def take_over(self, lane: Lane, term: Term) -> PlainHandoff:
        """See Broker. Nobody is fenced: there is nothing at the target that could."""
        handoff = PlainHandoff(lane, self._publish_s + _GRACE_S, self.sending, self._handoffs.discard)
        self._handoffs.add(handoff)
        return handoff

    async def close(self) -> None:
        """See Broker."""
        for handoff in tuple(self._handoffs):
            await handoff.close()
        if self._sending:
            await asyncio.wait(self._sending)  # they have been cancelled
        for target in self._targets.values():
            await target.close()

    def sending(self, batch: Sequence[Stored]) -> asyncio.Task[Outcome]:
        """Publish a batch. Raises RetryError or FixError where nothing could be sent and the fault is no message's.

        What a target has not been asked to take is neither published nor failed.
        """
        task = asyncio.ensure_future(self._send(batch))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return task

    async def _send(self, batch: Sequence[Stored]) -> Outcome:
        await self._sweep()
        progress, now = Progress(), asyncio.get_running_loop().time()
        pace = Pace(now + _BEGIN_SHARE * self._publish_s, now + self._publish_s)
        async with asyncio.TaskGroup() as group:
            for target, chains in self._sorted(batch, progress):
                group.create_task(target.send(chains, progress, pace))
        if not self._routes.is_one:
            progress.failed += progress.held
        elif progress.held and not progress.published and not progress.failed:
            raise progress.held[0].error
        if batch and not progress.published and not progress.failed:
            raise Unavailable(
                "no message could be begun in time: all connections are in use", remedy="raise connections"
            )
        return progress.outcome(batch)

    def _sorted(self, batch: Sequence[Stored], progress: Progress) -> Iterable[tuple[Target, Iterable[Chain]]]:
        """The targets of a batch with their messages, those of one key in a chain."""
        found: dict[str, dict[Entity, Chain]] = {}
        for message in batch:
            try:
                url = self._routes.url_of(message.topic)
            except ParkError as error:
                progress.failed.append(Failure(message, error))
                continue
            found.setdefault(url, {}).setdefault(entity_of(message), Chain()).append(message)
        return [(self._target(url), chains.values()) for url, chains in found.items()]

    async def _sweep(self) -> None:
        now = self._options.clock.monotonic()
        if now - self._swept_at >= _IDLE_S:
            self._swept_at = now
            idle = [target for target in self._targets.values() if target.is_idle(_IDLE_S)]
            for target in idle:
                del self._targets[target.url]
            for target in idle:
                await target.close()

    def _target(self, url: str) -> Target:
        found = self._targets.get(url)
        if found is None:
            self._targets[url] = found = Target(
                url,
                pool(self._settings, self._tls),
                self._encoder,
                self._options.clock,
                connections=self._settings.connections,
                paused=not self._routes.is_one,
            )
        return found
