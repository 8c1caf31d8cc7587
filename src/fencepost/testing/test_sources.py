"""The rules of sources, against the plug-in that ``--database`` names."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.testing.addresses import address
from fencepost.testing.sources import SourceRules


class TestSource(SourceRules):
    """Run by ``pytest --pyargs fencepost.testing --database=NAME``."""

    @pytest.fixture
    def database_url(self, tmp_path: Path, pytestconfig: pytest.Config) -> str:
        self.database = pytestconfig.getoption("fencepost_database")
        self.writer_module = pytestconfig.getoption("fencepost_writer")
        url: str | None = pytestconfig.getoption("fencepost_database_url")
        return url or address("database", self.database, tmp_path)
