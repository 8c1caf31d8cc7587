"""The rules of lease stores, against the plug-in that ``--election`` names."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.testing.addresses import address
from fencepost.testing.elections import ElectionRules


class TestElection(ElectionRules):
    """Run by ``pytest --pyargs fencepost.testing --election=NAME``."""

    @pytest.fixture
    def election_url(self, tmp_path: Path, pytestconfig: pytest.Config) -> str:
        self.election = pytestconfig.getoption("fencepost_election")
        url: str | None = pytestconfig.getoption("fencepost_election_url")
        return url or address("election", self.election, tmp_path)
