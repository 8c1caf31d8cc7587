"""The fixtures of the rules about brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from fencepost.testing.addresses import address
from fencepost.testing.places import BrokerPlace, broker_place


@pytest.mark.asyncio(loop_scope="function")
class OnBroker:
    """A lane and a topic of its own for every test.

    ``broker`` is the name or the dotted module of the plug-in; ``reader_module`` has its reader, where that is not in
    the usual place (see ``fencepost.testing.harness``).
    """

    broker: str
    reader_module: str | None = None

    @pytest.fixture
    def broker_url(self, tmp_path: Path) -> str:
        """Where the broker is."""
        return address("broker", self.broker, tmp_path)

    @pytest.fixture
    def broker_settings(self) -> Mapping[str, object]:
        """The plug-in's own settings."""
        return {}

    @pytest_asyncio.fixture(loop_scope="function")
    async def place(self, broker_url: str, broker_settings: Mapping[str, object]) -> AsyncIterator[BrokerPlace]:
        """A broker with a fresh lane and a fresh topic."""
        module = self.reader_module
        async with broker_place(self.broker, broker_url, settings=broker_settings, reader_module=module) as place:
            yield place
