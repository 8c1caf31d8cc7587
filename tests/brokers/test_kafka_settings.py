"""Settings: what is passed on, what is refused and why, and that no secret ever shows."""

import re
import threading
from pathlib import Path

import pytest

from fencepost.brokers.kafka import broker, refused
from fencepost.brokers.kafka.options import KNOWN, unusable
from fencepost.brokers.kafka.settings import is_topic, parse
from fencepost.config import load
from fencepost.errors import ConfigurationError
from fencepost.ports import BrokerOptions, Lane
from tests.brokers.kafka_kit import options

URL = "kafka://127.0.0.1:9092"
SECRET = "correct-horse"


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("kafka://one", "one"),
        ("kafka://one:9092,two.example:19092/", "one:9092,two.example:19092"),
        ("kafka://[::1]:9092", "[::1]:9092"),
    ],
)
def test_the_hosts_of_a_url(url: str, servers: str) -> None:
    assert parse(options(url)).servers == servers


@pytest.mark.parametrize("url", ["kafka://", "kafka://a,", "kafka://a:b", "kafka://a?x=1", "nats://a", "a:9092"])
def test_a_url_that_cannot_be_meant_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="kafka://host1:9092,host2:9092"):
        parse(options(url))


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match=r"sasl\.password") as caught:
        parse(options(f"kafka://user:{SECRET}@host"))
    assert SECRET not in str(caught.value)


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="partitioner, partitions, receipts_topic, replication_factor"):
        parse(options(URL, {"topic": "x"}))


@pytest.mark.parametrize(
    "name",
    [
        "transactional.id",
        "enable.idempotence",
        "request.required.acks",
        "isolation.level",
        "bootstrap.servers",
        "delivery.report.only.error",
        "test.mock.num.brokers",
        "plugin.anything",
    ],
)
def test_what_the_guarantee_rests_on_cannot_be_set(name: str) -> None:
    with pytest.raises(ConfigurationError, match="the guarantee rests on it"):
        parse(options(URL, {name: "x"}))


def test_acks_is_not_a_setting() -> None:
    with pytest.raises(ConfigurationError, match="has no setting 'acks'"):
        parse(options(URL, {"acks": 0}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partitions", 0),
        ("partitions", True),
        ("partitions", "4"),
        ("replication_factor", -2),
        ("receipts_topic", "a b"),
        ("receipts_topic", 7),
        ("partitioner", "java"),
        ("ssl.ca.location", ["a"]),
        ("ssl.ca.location", None),
    ],
)
def test_values_that_cannot_be_meant_are_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name.replace(".", r"\.")):
        parse(options(URL, {name: value}))


def test_options_reach_the_clients_that_know_them() -> None:
    settings = parse(options(URL, {"security.protocol": "SASL_SSL", "compression.type": "zstd", "linger.ms": 1.5}))
    producer, consumer = settings.producer("id"), settings.consumer()
    assert producer["security.protocol"] == consumer["security.protocol"] == settings.admin()["security.protocol"]
    assert (producer["compression.type"], producer["linger.ms"]) == ("zstd", "1.5")
    assert "compression.type" not in consumer
    assert "linger.ms" not in settings.admin()


def test_tables_in_tables_are_the_same_options() -> None:
    nested = {"sasl": {"mechanism": "PLAIN", "username": "u"}, "ssl": {"ca": {"location": "f"}}, "enable": {}}
    flat = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "ssl.ca.location": "f"}
    assert parse(options(URL, nested)) == parse(options(URL, flat))


def test_truth_values_are_written_as_librdkafka_reads_them() -> None:
    shared = parse(options(URL, {"socket.keepalive.enable": True, "log.connection.close": False})).shared
    assert shared == {"socket.keepalive.enable": "true", "log.connection.close": "false"}


def test_the_guarantee_cannot_be_lost_by_defaults() -> None:
    producer = parse(options(URL)).producer("fencepost.orders.0")
    wanted = {"enable.idempotence": "true", "acks": "all", "transactional.id": "fencepost.orders.0"}
    assert producer.items() >= wanted.items()
    assert parse(options(URL)).consumer()["isolation.level"] == "read_committed"


@pytest.mark.parametrize("timeout_s", [0.5, 30.0, 5000.0])
def test_the_time_limits_fit_together(timeout_s: float) -> None:
    producer = parse(options(URL, timeout_s=timeout_s)).producer("id")
    assert 0 < int(producer["message.timeout.ms"]) <= int(producer["transaction.timeout.ms"]) <= 900_000


async def test_a_secret_is_in_no_error() -> None:
    kafka = broker(options(URL, {"sasl.password": SECRET, "security.protocol": SECRET}))
    with pytest.raises(ConfigurationError) as caught:
        await kafka.open()
    assert "security.protocol" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_secret_is_in_no_text_of_the_settings() -> None:
    assert SECRET not in repr(parse(options(URL, {"sasl.password": SECRET, "ssl.key.pem": SECRET})))


async def test_an_option_that_librdkafka_does_not_know_is_refused_when_it_is_opened() -> None:
    with pytest.raises(ConfigurationError, match=r"no\.such\.option"):
        await broker(options(URL, {"no.such.option": 1})).open()


def test_receipts_have_a_topic_per_relay_unless_told_otherwise() -> None:
    lane = Lane("orders", 3)
    assert parse(options(URL)).receipts_topic(lane) == "fencepost.receipts.orders"
    assert parse(options(URL, {"receipts_topic": "mine"})).receipts_topic(lane) == "mine"


def test_topic_names() -> None:
    """Case E4."""
    assert all(is_topic(name) for name in ("a", "a.b", "a_b", "A-1", "x" * 249, "..."))
    assert not any(is_topic(name) for name in ("", ".", "..", "a b", "a/b", "ä", "x" * 250, "a\n"))


def test_the_factory_checks_its_settings() -> None:
    with pytest.raises(ConfigurationError):
        broker(BrokerOptions(url=URL, source="/x", settings={"nonsense": 1}))


REFUSED: dict[str, tuple[object, str, str]] = {
    "compression.type": ("zip", "compression.type = 'zip'", "none, gzip, snappy, lz4 or zstd"),
    "sasl.pasword": ("x", "no option 'sasl.pasword'", "did you mean 'sasl.password'?"),
    "linger.ms": (999_999_999, "linger.ms = 999999999", "from 0 to 900000"),
    "socket.keepalive.enable": ("maybe", "socket.keepalive.enable = 'maybe'", "true or false"),
    "statistics.interval.ms": ("often", "statistics.interval.ms = 'often'", "CONFIGURATION.md"),
    "default.topic.config": ("x", "default.topic.config = 'x'", "CONFIGURATION.md"),
    "no.such.option": (1, "no option 'no.such.option'", "CONFIGURATION.md"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_librdkafka_does_not_take_is_told_with_its_line_in_the_users_words(name: str, tmp_path: Path) -> None:
    """By the name that was written, before anything is connected."""
    value, said, remedy = REFUSED[name]
    file = tmp_path / "fencepost.toml"
    file.write_text(
        f'[relay]\nname = "shop"\n[database]\nurl = "memory://kafka"\n[broker]\nurl = "{URL}"\n{name} = {value!r}\n'
    )
    with pytest.raises(ConfigurationError) as told:
        load(file, {})
    assert told.value.what.startswith(f"[broker] {name} ({file} line 7): ")
    assert said in told.value.what
    assert remedy in told.value.remedy


def test_no_client_is_made_to_ask_librdkafka() -> None:
    before = threading.active_count(), len(list(Path("/proc/self/task").iterdir()))
    assert refused(URL, {"compression.type": "zstd", "sasl.username": "u", "linger.ms": 5}) == {}
    assert (threading.active_count(), len(list(Path("/proc/self/task").iterdir()))) == before


def test_a_secret_that_stands_in_another_option_is_not_shown() -> None:
    told = refused(URL, {"sasl.password": SECRET, "security.protocol": SECRET})
    assert "security.protocol = ***" in str(told["security.protocol"])
    assert SECRET not in str(told)


def test_every_name_that_is_suggested_is_one_of_librdkafkas() -> None:
    unknown = [name for name, error in unusable(dict.fromkeys(KNOWN, "?")).items() if "no option" in error.what]
    assert unknown == []


@pytest.mark.parametrize(
    "name",
    ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location", "ssl.crl.location"],
)
def test_a_file_that_is_not_there_is_named_with_its_setting(name: str, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.pem")
    with pytest.raises(ConfigurationError, match=f"there is no file '{gone}', which {re.escape(name)} names"):
        broker(options(URL, {name: gone}))
    (tmp_path / "gone.pem").touch()
    broker(options(URL, {name: gone}))


def test_authorities_may_be_a_folder_or_looked_for(tmp_path: Path) -> None:
    for place in (str(tmp_path), "probe"):
        broker(options(URL, {"ssl.ca.location": place}))


def test_a_file_of_the_schema_registry_that_is_not_there() -> None:
    settings = {"encoders.*": "avro", "schema.registry.url": "http://h:1", "schema.registry.ssl.ca.location": "/gone"}
    with pytest.raises(ConfigurationError, match=r"'/gone', which schema\.registry\.ssl\.ca\.location names"):
        broker(options(URL, settings))
