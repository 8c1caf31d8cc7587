"""What a demonstration takes from somebody's configuration, and what it says itself."""

from pathlib import Path

from fencepost import plugins
from fencepost.config import Config, load
from fencepost.demo.configuration import TTL_S, Setup

FILE = """
[relay]
name = "shop"
source = "/shop"
batch = 7
delivery = "exactly-once"

[database]
url = "postgresql://app:hunter22@db/shop?sslmode=require"
schema = "shop"
prefix = "shop_"
timeout_s = 9.0

[broker]
url = "somebody.elses://k1:9092"
create = false
receipts_topic = "receipts"
security.protocol = "SASL_SSL"
sasl.username = "relay"
sasl.password = "hunter22$"
socket.keepalive.enable = true
subjects = ["a", "b"]

[lease]
url = "postgresql://app:hunter22@leases/x"
session_evidence = "off"
"""


def given(tmp_path: Path) -> Config:
    file = tmp_path / "shop.toml"
    file.write_text(FILE)
    return load(file, {})


def made(tmp_path: Path, setup: Setup) -> Config:
    """The configuration as the demonstration's relays read it."""
    text, env = setup.written({"receipts_topic": "demo-receipts"})
    assert "hunter22" not in text
    file = tmp_path / "demo.toml"
    file.write_text(text)
    return load(file, env)


def test_everything_but_the_names_is_taken(tmp_path: Path) -> None:
    config = given(tmp_path)
    sections = {"relay", "database", "broker", "lease"}
    setup = Setup("r1", config.database.url, config.broker.url, config, sections)
    demo = made(tmp_path, setup)
    assert (demo.relay.name, demo.source, demo.relay.batch) == ("demo-r1", "/demo-r1", 7)
    assert demo.relay.delivery == "exactly-once"
    assert (demo.database.url, demo.database.schema, demo.database.timeout_s) == (config.database.url, "shop", 9.0)
    assert demo.database.prefix == "fencepost_demo_r1_"
    assert (demo.broker.url, demo.broker.create) == (config.broker.url, True)
    assert demo.broker.settings == {
        "receipts_topic": "demo-receipts",
        "security.protocol": "SASL_SSL",
        "sasl.username": "relay",
        "sasl.password": "hunter22$",
        "socket.keepalive.enable": True,
    }
    assert (demo.lease_url, demo.lease.ttl_s) == (config.database.url, TTL_S)
    assert demo.lease.settings == {"session_evidence": "off"}
    assert demo.log.format == "json"
    assert setup.topic == "fencepost-demo-r1"


def test_the_readers_log_in_as_the_relay_does(tmp_path: Path) -> None:
    config = given(tmp_path)
    options = Setup("r1", "sqlite:///x.db", config.broker.url, config, {"broker"}).broker()
    assert options.url == config.broker.url
    assert options.settings["sasl.password"] == "hunter22$"
    assert not {"receipts_topic", "subjects", "create", "timeout_s"} & set(options.settings)


def test_a_url_that_is_given_stands_for_its_whole_section(tmp_path: Path) -> None:
    setup = Setup("r1", "sqlite:///x.db", "somebody.elses://h:4222", given(tmp_path), {"relay", "lease"})
    demo = made(tmp_path, setup)
    assert (demo.database.url, demo.database.schema) == ("sqlite:///x.db", None)
    assert demo.broker.settings == {"receipts_topic": "demo-receipts"}
    assert demo.relay.batch == 7


def test_without_a_configuration_the_defaults_hold(tmp_path: Path) -> None:
    demo = made(tmp_path, Setup("r1", "sqlite:///x.db", "somebody.elses://h:4222", None, set()))
    assert demo.relay.name == "demo-r1"
    assert demo.broker.settings == {"receipts_topic": "demo-receipts"}
    assert demo.database.schema is None


def test_further_settings_of_the_broker_reach_the_relays_and_the_reader(tmp_path: Path) -> None:
    """Topics and streams of a cluster have copies."""
    setup = Setup("r1", "sqlite:///x.db", "kafka://h:9092", None, set(), settings={"replication_factor": 3})
    assert setup.broker().settings["replication_factor"] == 3
    assert made(tmp_path, setup).broker.settings["replication_factor"] == 3


def test_a_broker_is_spoken_to_behind_a_plug_in_of_somebody_elses() -> None:
    """The reader uses the protocol, the relays the plug-in."""
    setup = Setup("r1", "sqlite:///x.db", "shop.broker+nats://h:4222", None, set())
    assert setup.broker().url == "nats://h:4222"
    assert "shop.broker+nats://h:4222" in setup.written({})[1].values()
    assert plugins.spoken("nats+tls://h:4222") == "nats+tls://h:4222"
    assert plugins.spoken("nats://a.b+c@h:4222") == "nats://a.b+c@h:4222"
