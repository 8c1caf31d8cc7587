"""A client of a service of Amazon's: the usual credentials, a deadline for each call, errors of the four families."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import cache
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore.loaders import Loader

from fencepost.aws.address import Server
from fencepost.aws.faults import ERRORS, fault_of, silent
from fencepost.calls import is_cancelled
from fencepost.clock import Clock
from fencepost.errors import ConnectionLost, DeadlineExceeded, FencepostError

CONNECTIONS_MAX = 32
"""HTTP connections of one client, and so how many of its requests are under way at once."""

_ATTEMPTS = 3  # of one request, by the library: a connection that stood idle may be gone, a partition may be busy
_CONNECT_S = 5.0
_GOODBYE_S = 0.5
_LOADER = Loader()  # it keeps what it has read: the description of a service is large
_ANY = "local"  # what an emulator takes for a key


class Client:
    """One client, from ``open`` to ``close``. Several calls may run at once.

    ``attempts`` is how often the library itself tries a request: once, where a repeat would do harm.
    """

    def __init__(
        self,
        address: Server,
        timeout_s: float,
        clock: Clock,
        *,
        attempts: int = _ATTEMPTS,
        connections: int = CONNECTIONS_MAX,
    ) -> None:
        self.place = address.place
        self._address, self._timeout_s, self._clock = address, timeout_s, clock
        self._attempts, self._connections = attempts, connections
        self._client: Any = None
        self._running: set[asyncio.Future[Any]] = set()

    async def open(self) -> None:
        """Make the client; no request is sent. Does nothing where it is open."""
        if self._client is None:
            try:
                self._client = await self._create().__aenter__()
            except ERRORS as error:
                raise self._fault(error) from error

    async def call(self, operation: str, **request: Any) -> Any:
        """One request, in time and with its errors mapped."""
        try:
            return await self.ask(operation, **request)
        except ERRORS as error:
            raise self._fault(error) from error

    async def ask(self, operation: str, **request: Any) -> Any:
        """One request, in time; the library's errors come as they are, for who looks into them."""
        if self._client is None:
            raise ConnectionLost(f"{self.place}: this client is closed")
        calling = asyncio.ensure_future(getattr(self._client, operation)(**request))
        self._running.add(calling)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await calling
        except TimeoutError as error:
            what = f"{self.place} did not answer within {self._timeout_s:g} s"
            raise DeadlineExceeded(what, remedy=silent(self._address.one)) from error
        except asyncio.CancelledError as error:
            if self._client is None and not is_cancelled():
                raise ConnectionLost(f"{self.place}: this client was closed") from error
            raise
        finally:
            calling.cancel()
            self._running.discard(calling)

    async def close(self) -> None:
        """End what is running and let the connections go. Never raises; may be opened again."""
        client, self._client = self._client, None
        for calling in list(self._running):
            calling.cancel()
        if client is not None:
            with suppress(TimeoutError, FencepostError, *ERRORS):
                async with asyncio.timeout(_GOODBYE_S):
                    await client.__aexit__(None, None, None)

    def _fault(self, error: BaseException) -> FencepostError:
        return fault_of(error, self.place, self._address.one)

    def _create(self) -> Any:
        keys = {}
        if self._address.is_local and "AWS_ACCESS_KEY_ID" not in os.environ:
            # Looking for credentials that nobody wants would ask the network first.
            keys = {"aws_access_key_id": _ANY, "aws_secret_access_key": _ANY}
        return (_without_credentials() if keys else _session()).create_client(
            self._address.service,
            region_name=self._address.region,
            endpoint_url=self._address.endpoint,
            config=AioConfig(
                connect_timeout=min(_CONNECT_S, self._timeout_s),
                read_timeout=self._timeout_s,
                max_pool_connections=self._connections,
                parameter_validation=False,
                retries={"mode": "standard", "total_max_attempts": self._attempts},
                user_agent_extra="fencepost",
            ),
            **keys,
        )


def _session() -> AioSession:
    """A session of its own for each client: found credentials are refreshed under locks of one event loop."""
    session = AioSession()
    session.register_component("data_loader", _LOADER)
    return session


@cache
def _without_credentials() -> AioSession:
    return _session()
