"""The rules of brokers, against the plug-in that ``--broker`` names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from fencepost.testing.addresses import address
from fencepost.testing.brokers import BrokerRules


class TestBroker(BrokerRules):
    """Run by ``pytest --pyargs fencepost.testing --broker=NAME``."""

    @pytest.fixture
    def broker_url(self, tmp_path: Path, pytestconfig: pytest.Config) -> str:
        self.broker = pytestconfig.getoption("fencepost_broker")
        self.reader_module = pytestconfig.getoption("fencepost_reader")
        url: str | None = pytestconfig.getoption("fencepost_broker_url")
        return url or address("broker", self.broker, tmp_path)

    @pytest.fixture
    def broker_settings(self, pytestconfig: pytest.Config) -> Mapping[str, object]:
        return dict(pytestconfig.getoption("fencepost_broker_setting"))
