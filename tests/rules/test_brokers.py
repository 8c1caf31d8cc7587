"""The rules of brokers, for every broker of this project, and for the one in memory as each class of broker."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from fencepost.testing.brokers import BrokerRules
from fencepost.testing.places import BrokerPlace, fresh


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


class TestRabbit(BrokerRules):
    broker = "rabbitmq"

    @pytest.fixture
    def broker_url(self, rabbitmq_url: str) -> str:
        return rabbitmq_url


class TestMqtt(BrokerRules):
    broker = "mqtt"

    @pytest.fixture
    def broker_url(self, mqtt_url: str) -> str:
        return mqtt_url

    @pytest.fixture
    def broker_settings(self) -> Mapping[str, object]:
        return {"publish_s": 20.0}  # hundreds of messages at once, on a machine that may be busy


class TestRedis(BrokerRules):
    broker = "redis"

    @pytest.fixture
    def broker_url(self, redis_url: str) -> str:
        return redis_url


class TestHttp(BrokerRules):
    broker = "http"

    @pytest.fixture
    def broker_settings(self) -> Mapping[str, object]:
        return {"publish_s": 10.0}  # the machine may be busy


class TestSqs(BrokerRules):
    """One message of a key at a time: a rule hands over hundreds of them, on a machine that may be busy."""

    broker = "sqs"

    @pytest.fixture
    def broker_settings(self) -> Mapping[str, object]:
        return {"publish_s": 20.0}

    @pytest.fixture
    def broker_url(self, sqs_url: str) -> str:
        return sqs_url


class TestSqsStandard(BrokerRules):
    broker = "sqs"

    @pytest.fixture
    def broker_url(self, sqs_url: str) -> str:
        return sqs_url

    @pytest.fixture
    def broker_settings(self) -> Mapping[str, object]:
        return {"fifo": False, "publish_s": 20.0}


class TestSns(BrokerRules):
    broker = "sns"

    @pytest.fixture
    def broker_url(self, sns_url: str) -> str:
        return sns_url

    @pytest.fixture
    def broker_settings(self) -> Mapping[str, object]:
        return {"publish_s": 20.0}

    async def test_the_thousandth_message_has_the_headers_of_the_first(self, place: BrokerPlace) -> None:
        pytest.skip("a thousand messages take moto four minutes; SQS, whose code for headers is the same, is tested")

    async def test_a_large_batch_is_published_complete(self, place: BrokerPlace) -> None:
        pytest.skip("hundreds of messages take moto a minute; SQS, whose code for batches is the same, is tested")


class TestFile(BrokerRules):
    broker = "file"


class _InboxTable(BrokerRules):
    """Tables of its own, dropped by the reader."""

    broker = "sql"

    @pytest.fixture
    def broker_settings(self) -> Mapping[str, object]:
        return {"prefix": f"rules_{fresh()}_"}


class TestSqlPostgresql(_InboxTable):
    @pytest.fixture
    def broker_url(self, postgresql_url: str) -> str:
        return f"inbox+{postgresql_url}"


class TestSqlMariadb(_InboxTable):
    @pytest.fixture
    def broker_url(self, mariadb_url: str) -> str:
        return f"inbox+{mariadb_url}"


class TestSqlSqlite(_InboxTable):
    @pytest.fixture
    def broker_url(self, tmp_path: Path) -> str:
        return f"inbox+sqlite:///{tmp_path / 'inbox.db'}"
