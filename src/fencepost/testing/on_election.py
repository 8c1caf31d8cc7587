"""The fixtures of the rules about lease stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fencepost.testing.addresses import address
from fencepost.testing.places import ElectionPlace, election_place


@pytest.mark.asyncio(loop_scope="function")
class OnElection:
    """An empty lease store for every test. ``election`` is the name or the dotted module of the plug-in."""

    election: str

    @pytest.fixture
    def election_url(self, tmp_path: Path) -> str:
        """Where the leases are kept."""
        return address("election", self.election, tmp_path)

    @pytest_asyncio.fixture(loop_scope="function")
    async def place(self, election_url: str) -> AsyncIterator[ElectionPlace]:
        """An empty lease store."""
        async with election_place(self.election, election_url) as place:
            yield place
