"""One batch: requests of up to ten messages, several at once, and never two messages of a key under way.

A request is not all or nothing: each of its messages is taken or refused by itself. So a message is sent only when the
one before it of the same key has been taken; where that one was refused, the rest of its key is not sent.

A request that was refused because of one of its messages says seldom which one. Then they are sent one by one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.aws.address import Server
from fencepost.aws.client import Client
from fencepost.aws.faults import ERRORS
from fencepost.aws.publishing.encode import Encoder, Entry
from fencepost.aws.publishing.faults import About, Fault, fault, fault_of_entry
from fencepost.aws.publishing.places import Places, Refused, Service
from fencepost.errors import ConnectionLost, FencepostError, ParkError
from fencepost.handoffs import Progress
from fencepost.message import Entity, Stored, entity_of
from fencepost.ports import Failure

ENTRIES_MAX = 10
"""Messages of one request."""

_BEGIN_SHARE = 0.3
"""Of the time of a batch: in the rest what has begun is answered."""

Chain = deque[tuple[Stored, Entry]]
"""Messages of one key, in order."""


@dataclass(slots=True)
class _Load:
    """What is to be sent to one place. ``alone``: one message at a time, to find out which one is refused."""

    name: str
    waiting: deque[Chain] = field(default_factory=deque)
    alone: bool = False
    fault: Fault | None = None


class Batch(Progress):
    """One batch on its way, and what has become of it. Used once."""

    def __init__(self, service: Service, client: Client, server: Server, places: Places, encoder: Encoder) -> None:
        super().__init__()
        self._service, self._client, self._server = service, client, server
        self._places, self._encoder = places, encoder
        self.trouble: FencepostError | None = None
        """What is wrong with the service: nothing more is sent then."""

    async def send(self, batch: Sequence[Stored], *, connections: int, publish_s: float) -> None:
        """Send as much as the time allows. What was neither published nor failed was not sent, but for ``trouble``."""
        loads = self._loads(batch)
        now = asyncio.get_running_loop().time()
        self._begin_until, self._end = now + _BEGIN_SHARE * publish_s, now + publish_s
        self._slots = asyncio.Semaphore(connections)
        async with asyncio.TaskGroup() as group:
            for load in loads:
                requests = -(-len(load.waiting) // ENTRIES_MAX)
                for _ in range(min(connections, requests)):
                    group.create_task(self._work(load))
        for load in loads:
            if load.fault is not None:
                self.failed += [_held(chain[0][0], load.fault) for chain in load.waiting]

    def _loads(self, batch: Sequence[Stored]) -> Sequence[_Load]:
        """The places of a batch with their messages, those of one key in a chain that ends at one that cannot go."""
        loads: dict[str, _Load] = {}
        chains: dict[Entity, Chain] = {}
        ended: set[Entity] = set()
        for message in batch:
            entity = entity_of(message)
            if entity in ended:
                continue
            try:
                name, entry = self._places.names.of(message.topic), self._encoder.entry(message)
            except ParkError as error:
                self.failed.append(Failure(message, error))
                ended.add(entity)
                continue
            if entity not in chains:
                chains[entity] = deque()
                loads.setdefault(name, _Load(name)).waiting.append(chains[entity])
            chains[entity].append((message, entry))
        return list(loads.values())

    async def _work(self, load: _Load) -> None:
        """Send one request after the other, until nothing is left, the time is up, or something is wrong."""
        while self._goes_on(load):
            async with self._slots:
                if self._goes_on(load):  # others may have sent the rest meanwhile
                    await self._request(load, self._taken(load))

    def _goes_on(self, load: _Load) -> bool:
        if not load.waiting or load.fault is not None or self.trouble is not None:
            return False
        return asyncio.get_running_loop().time() < self._begin_until

    def _taken(self, load: _Load) -> list[Chain]:
        """The chains whose first messages go into the next request."""
        chains: list[Chain] = []
        size = 0
        while load.waiting and len(chains) < (1 if load.alone else ENTRIES_MAX):
            size += load.waiting[0][0][1].size
            if chains and size > self._encoder.bytes_max:
                break
            chains.append(load.waiting.popleft())
        return chains

    async def _request(self, load: _Load, chains: list[Chain]) -> None:
        entries = [chain[0][1] for chain in chains]
        try:
            async with asyncio.timeout_at(self._end):
                address = await self._places.address(load.name)
                answer = await self._service.send(self._client, address, entries)
        except Refused as error:
            self._refused(load, chains, error.fault)
        except (FencepostError, *ERRORS) as error:  # TimeoutError is one of these
            self._refused(load, chains, fault(error, self._server, load.name))
        else:
            self._answered(load, chains, answer)

    def _answered(self, load: _Load, chains: list[Chain], answer: Mapping[str, Any]) -> None:
        """Take the service's word on each message of a request."""
        taken = {str(entry.get("Id")) for entry in answer.get("Successful") or ()}
        refused = {str(entry.get("Id")): entry for entry in answer.get("Failed") or ()}
        for number, chain in enumerate(chains):
            message = chain[0][0]
            if str(number) in taken:
                self.published.add(message.position)
                chain.popleft()
                if chain:
                    load.waiting.append(chain)
            elif str(number) in refused:
                what = f"message {message.id} of topic {message.topic!r}"
                self._fail(load, chain, fault_of_entry(refused[str(number)], self._server, what))
            else:
                what = f"{self._server.place} said nothing of message {message.id}"
                self.trouble = self.trouble or ConnectionLost(what, remedy="it is sent again")

    def _fail(self, load: _Load, chain: Chain, found: Fault) -> None:
        if found.about is About.PLACE:
            load.fault = load.fault or found
            load.waiting.appendleft(chain)
        else:
            self.failed.append(Failure(chain[0][0], found.error))

    def _refused(self, load: _Load, chains: list[Chain], found: Fault) -> None:
        """Take the refusal of a whole request."""
        if found.about is About.SERVICE:
            self.trouble = self.trouble or found.error
        elif found.about is About.MESSAGE and len(chains) == 1:
            self.failed.append(Failure(chains[0][0][0], found.error))
        else:
            load.waiting.extendleft(reversed(chains))
            if found.about is About.MESSAGE:
                load.alone = True
            else:
                load.fault = load.fault or found
                self._places.forget(load.name)


def _held(message: Stored, found: Fault) -> Failure:
    """A message that waits because its place is in trouble."""
    return Failure(message, found.error, whole_topic=True, pause_s=found.pause_s)
