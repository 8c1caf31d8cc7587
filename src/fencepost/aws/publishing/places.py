"""Where the messages of each topic go: queues, or topics at SNS, found once and kept."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from fencepost.aws.address import Server
from fencepost.aws.client import Client
from fencepost.aws.faults import ERRORS
from fencepost.aws.publishing.encode import Entry
from fencepost.aws.publishing.faults import About, Fault, fault
from fencepost.aws.publishing.names import Names
from fencepost.aws.publishing.settings import Settings
from fencepost.errors import FencepostError, FixError

_KEPT_MAX = 10_000


class Service(Protocol):
    """What differs between the services. Each call is one request or two, and raises what ``Client.ask`` does."""

    async def probe(self, client: Client) -> None:
        """Ask something that changes nothing and needs no queue or topic."""
        ...

    async def find(self, client: Client, name: str, *, create: bool) -> str:
        """The address of what has this name; made where it is missing and that is allowed."""
        ...

    async def send(self, client: Client, address: str, entries: list[Entry]) -> Any:
        """Send up to ten messages, numbered from "0" on; the service's answer."""
        ...


class Refused(Exception):
    """A place cannot be had, or the service cannot."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault.error))
        self.fault = fault


class Places:
    """The places of all topics of a broker. Shared by its lanes."""

    def __init__(self, service: Service, client: Client, server: Server, settings: Settings, *, create: bool) -> None:
        self._service, self._client, self._server, self._create = service, client, server, create
        self.names = Names(settings)
        self._found: dict[str, str] = {}
        self._finding: dict[str, asyncio.Lock] = {}

    async def probe(self) -> None:
        """Raise what is wrong with the service as a whole."""
        try:
            await self._service.probe(self._client)
        except (FencepostError, *ERRORS) as error:
            found = fault(error, self._server)
            if found.about is About.SERVICE:
                raise found.error from error

    async def address(self, name: str) -> str:
        """The address of the place with this name. Raises Refused."""
        if name not in self._found:
            lock = self._finding.setdefault(name, asyncio.Lock())
            try:
                async with lock:
                    if name not in self._found:
                        await self._find(name, create=self._create)
            finally:
                self._finding.pop(name, None)
        return self._found[name]

    async def check(self, name: str) -> None:
        """Look for a place and create nothing. Raises Refused."""
        await self._find(name, create=False)

    def forget(self, name: str) -> None:
        """It is to be looked for again: it was not where it had been."""
        self._found.pop(name, None)

    async def _find(self, name: str, *, create: bool) -> None:
        try:
            address = await self._service.find(self._client, name, create=create)
        except (FencepostError, *ERRORS) as error:
            found = fault(error, self._server, name)
            if found.about is About.MESSAGE:  # there is none: it is about the name
                found = Fault(About.PLACE, FixError(found.error.what))
            raise Refused(found) from error
        if len(self._found) >= _KEPT_MAX:  # topics taken from data must not fill the memory
            self._found.clear()
        self._found[name] = address
