"""Fixtures for real servers. A test that asks for one is marked with the server's name by itself."""

import os
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from tests.databases.mariadb_kit import mariadb_database
from tests.services import SERVERS, url_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the servers it needs, so that `-m "not kafka"` leaves out those that need Kafka."""
    for item in items:
        for name in SERVERS:
            if f"{name.replace('-', '_')}_url" in getattr(item, "fixturenames", ()):
                item.add_marker(name)


@pytest.fixture(scope="session")
def postgresql_url() -> str:
    """The address of a PostgreSQL whose user may create databases."""
    return url_of("postgresql")


@pytest.fixture(scope="session")
def mariadb_url() -> str:
    """The address of a MariaDB."""
    return url_of("mariadb")


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The address of a Redis."""
    return url_of("redis")


@pytest.fixture(scope="session")
def rabbitmq_url() -> str:
    """The address of a RabbitMQ with streams."""
    return url_of("rabbitmq")


@pytest.fixture(scope="session")
def mqtt_url() -> str:
    """The address of an MQTT server."""
    return url_of("mqtt")


@pytest.fixture(scope="session")
def nats_url() -> str:
    """The address of a NATS server with JetStream."""
    return url_of("nats")


@pytest.fixture(scope="session")
def kafka_url() -> str:
    """The address of a Kafka, as kafka://host:port."""
    return url_of("kafka")


@pytest.fixture(scope="session")
def apicurio_url() -> str:
    """The address of a schema registry, the path of its API at the end."""
    return url_of("apicurio")


@pytest.fixture(scope="session")
def registry_url(apicurio_url: str) -> str:
    """The same, whichever registry it is: Apicurio Registry, unless the environment names another."""
    return apicurio_url


@pytest.fixture(scope="session")
def dynamodb_url() -> str:
    """The address of a server that speaks DynamoDB's protocol."""
    return url_of("dynamodb")


@pytest.fixture(scope="session")
def sqs_url() -> str:
    """The address of a server that speaks SQS's protocol."""
    return url_of("sqs")


@pytest.fixture(scope="session")
def sns_url() -> str:
    """The address of a server that speaks SNS's protocol, and SQS's beside it."""
    return url_of("sns")


@pytest.fixture(scope="session")
def secantusdb_url() -> str:
    """The address of a MongoDB with transactions: a real one by FENCEPOST_TEST_MONGODB_URL, else SecantusDB."""
    return os.environ.get("FENCEPOST_TEST_MONGODB_URL") or url_of("secantusdb")


@pytest.fixture(scope="session")
def mongo_java_server_url() -> str:
    """The address of a MongoDB without transactions: a stand-alone one, or mongo-java-server."""
    return url_of("mongo-java-server")


@pytest.fixture
def fresh_name() -> str:
    """A short name that nothing else has: for topics, streams, relays, consumers."""
    return f"t{os.getpid():x}-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def fresh_database(postgresql_url: str, fresh_name: str) -> Iterator[str]:
    """The address of a new, empty PostgreSQL database, dropped afterwards even when somebody is still connected."""
    name = sql.Identifier(fresh_name)
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            yield urlunsplit(urlsplit(postgresql_url)._replace(path=f"/{fresh_name}"))
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture
def fresh_mariadb(mariadb_url: str, fresh_name: str) -> Iterator[str]:
    """The address of a new, empty MariaDB database."""
    with mariadb_database(mariadb_url, fresh_name) as url:
        yield url
