"""The rules of brokers, for every broker of this project, and for the one in memory as each class of broker."""

from collections.abc import Mapping

import pytest

from fencepost.testing.brokers import BrokerRules


class TestMemory(BrokerRules):
    broker = "memory"


class TestMemoryDeduplicating(BrokerRules):
    broker = "memory"

    @pytest.fixture
    def broker_settings(self) -> Mapping[str, object]:
        return {"delivery": "deduplicated"}


class TestMemoryPlain(BrokerRules):
    broker = "memory"

    @pytest.fixture
    def broker_settings(self) -> Mapping[str, object]:
        return {"delivery": "at-least-once"}


class TestKafka(BrokerRules):
    broker = "kafka"

    @pytest.fixture
    def broker_url(self, kafka_url: str) -> str:
        return kafka_url


class TestNats(BrokerRules):
    broker = "nats"

    @pytest.fixture
    def broker_url(self, nats_url: str) -> str:
        return nats_url
