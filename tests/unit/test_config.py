"""The configuration: what is accepted, and case H4: each mistake is refused with its name, place and remedy."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from fencepost.config import Config, ConfigurationErrors, load, mask_url, masked, scrubber
from fencepost.config.records import SECTIONS, RelayConfig, default_of, required, rules
from fencepost.errors import ConfigurationError
from fencepost.relay import RelayOptions

MINIMAL = """\
[relay]
name = "orders"

[database]
url = "sqlite:///orders.db"

[broker]
url = "nats://127.0.0.1:4222"
"""


def read(tmp_path: Path, text: str, env: Mapping[str, str] | None = None) -> Config:
    file = tmp_path / "fencepost.toml"
    file.write_text(text, encoding="utf-8")
    return load(file, env or {})


def refused(tmp_path: Path, text: str, env: Mapping[str, str] | None = None) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text, env)
    return caught.value


# -- what is accepted --------------------------------------------------------------------------------------------------


def test_minimal_file_takes_defaults(tmp_path: Path) -> None:
    config = read(tmp_path, MINIMAL)
    assert config.relay == RelayConfig(name="orders")
    assert config.source == "/orders"
    assert config.lease_url == "sqlite:///orders.db"
    assert config.lease.ttl_s == 5.0
    assert config.file == tmp_path / "fencepost.toml"


def test_defaults_of_relay_are_those_of_the_service() -> None:
    here, there = RelayConfig(name="orders"), RelayOptions()
    shared = {f.name for f in dataclasses.fields(RelayConfig)} & {f.name for f in dataclasses.fields(RelayOptions)}
    assert {"batch", "poll_s", "delivery", "on_poison"} <= shared
    for name in shared:
        assert getattr(here, name) == getattr(there, name), name


def test_every_section(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        MINIMAL.replace('url = "nats', 'create = false\ntimeout_s = 7\nurl = "somebody.elses')
        + '"sasl.username" = "app"\nsasl.mechanism = "PLAIN"\nsubjects = ["a", "b"]\n\n'
        + '[broker.tls]\nca = "ca.pem"\n\n[lease]\nurl = "postgresql://db/x"\nttl_s = 2\n\n[log]\nformat = "json"\n',
    )
    assert config.broker.create is False
    assert config.broker.timeout_s == 7.0
    assert config.broker.settings == {
        "sasl.username": "app",
        "sasl.mechanism": "PLAIN",
        "subjects": ["a", "b"],
        "tls.ca": "ca.pem",
    }
    assert config.lease.ttl_s == 2.0
    assert config.lease_url == "postgresql://db/x"
    assert config.log.format == "json"


def test_environment_comes_before_the_file(tmp_path: Path) -> None:
    env = {
        "FENCEPOST_RELAY__BATCH": "12",
        "FENCEPOST_BROKER__CREATE": "FALSE",
        "FENCEPOST_LEASE__TTL_S": "2.5",
        "FENCEPOST_BROKER__SASL__PASSWORD": "12345",
        "FENCEPOST_BROKER__URL": "kafka://localhost:9092",
        "FENCEPOST_BROKER__PARTITIONS": "3",
    }
    config = read(tmp_path, MINIMAL, env)
    assert config.relay.batch == 12
    assert config.broker.create is False
    assert config.lease.ttl_s == 2.5
    assert config.broker.settings == {"sasl.password": "12345", "partitions": 3}, "a secret stays the text that it is"


def test_environment_alone_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    env = {
        "FENCEPOST_RELAY__NAME": "orders",
        "FENCEPOST_DATABASE__URL": "sqlite:///orders.db",
        "FENCEPOST_BROKER__URL": "nats://127.0.0.1:4222",
        # what an orchestrator adds for a service that is called fencepost-relay
        "FENCEPOST_RELAY_SERVICE_HOST": "10.0.0.1",
        "FENCEPOST_RELAY_PORT": "tcp://10.0.0.1:80",
    }
    config = load(None, env)
    assert config.file is None
    assert config.relay.name == "orders"


def test_file_is_found_by_variable_and_in_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.toml").write_text(MINIMAL.replace("orders", "other"))
    (tmp_path / "fencepost.toml").write_text(MINIMAL)
    assert load(None, {"FENCEPOST_CONFIG": "other.toml"}).relay.name == "other"
    assert load(None, {}).relay.name == "orders"


def test_variables_in_values(tmp_path: Path) -> None:
    text = MINIMAL.replace("sqlite:///orders.db", "postgresql://app:${PW}@${HOST}/shop?x=$${PW}").replace(
        "nats://127.0.0.1:4222", "${BROKER}"
    )
    env = {"PW": "p@ss:w/rd ü", "HOST": "db:5432", "BROKER": "nats://u:p@n1:4222,nats://u:p@n2:4222"}
    config = read(tmp_path, text, env)
    assert config.database.url == "postgresql://app:p%40ss%3Aw%2Frd%20%C3%BC@db:5432/shop?x=${PW}"
    assert config.broker.url == env["BROKER"]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "in_section", "expected"),
    [
        ("batchsize = 10", "relay", ("unknown key [relay] batchsize", "line 10", "did you mean 'batch'")),
        ('batch = "10"', "relay", ("[relay] batch", "line 10", "is '10'", "a whole number")),
        ("batch = true", "relay", ("[relay] batch", "is true", "a whole number")),
        ("batch = 99999999999999999999", "relay", ("is 99999999999999999999", "from 1 to 100_000")),
        ("ttl_s = 99999", "lease", ("is 99999:", "from 0.5 to 3_600")),
        ("header_map = {b = true}", "broker", ("[broker] header_map.b", "is true", "a header's name")),
        ("batch = 0", "relay", ("[relay] batch", "is 0", "from 1 to")),
        ("poll_s = nan", "relay", ("[relay] poll_s", "is nan", "a number")),
        ("poll_s = inf", "relay", ("[relay] poll_s", "is inf", "a number")),
        ('delivery = "exactly_once"', "relay", ("[relay] delivery", "did you mean 'exactly-once'")),
        ('on_poison = "park "', "relay", ("[relay] on_poison", "blanks around its value", "remove them")),
        ('source = ""', "relay", ("[relay] source", "is empty")),
        ('source = "a b"', "relay", ("[relay] source", "a URI reference")),
        ("retry_base_s = 60", "relay", ("retry_base_s is 60", "retry_cap_s is 30")),
        ('prefix = "a;drop"', "database", ("[database] prefix", "letters, digits or _")),
        ('format = "yaml"', "log", ("[log] format", "'yaml'", "json")),
        ('level = "warn"', "log", ("[log] level", "did you mean 'warning'")),
        ("ttl_s = 0.1", "lease", ("[lease] ttl_s", "is 0.1", "from 0.5 to")),
        ('url = "zookeeper://x"', "lease", ("[lease] url", "no election is called 'zookeeper'", "postgresql")),
        ('prefix = "{shop}:outbox:"', "database", ("[database] prefix", "letters, digits or _")),
        ('"bad key" = 1', "log", ("unknown key [log] bad key", "line 10")),
    ],
)
def test_h4_wrong_value(tmp_path: Path, line: str, in_section: str, expected: tuple[str, ...]) -> None:
    body = MINIMAL.replace(f"[{in_section}]\n", "")
    text = body if in_section in ("log", "lease") else MINIMAL
    if in_section in ("log", "lease"):
        text += f"[{in_section}]\n{line}\n"
    else:  # a second part of the same section is not TOML: put the section last
        head, rest = MINIMAL.split(f"[{in_section}]\n")
        own, _, others = rest.partition("\n\n") if "\n\n" in rest else (rest, "", "")
        text = f"{head}{others}\n[{in_section}]\n{own.rstrip()}\n{line}\n"
    error = refused(tmp_path, text)
    shown = str(error)
    line_number = next(n for n, written in enumerate(text.splitlines(), start=1) if written == line)
    for part in expected:
        assert part.replace("line 10", f"line {line_number}") in shown, shown
    assert str(tmp_path / "fencepost.toml") in shown or "retry_cap_s" in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MINIMAL.replace("[broker]", "[brocker]"), ("unknown section [brocker]", "did you mean 'broker'")),
        (MINIMAL + "[brocker]\n", ("unknown section [brocker]", "did you mean 'broker'")),
        (f"name = 'x'\n{MINIMAL}", ("'name' stands outside", "line 1")),
        (MINIMAL.replace('name = "orders"\n', ""), ("[relay] name is missing", "add it")),
        (MINIMAL.replace('"orders"', '"Orders 1"'), ("[relay] name", "'Orders 1'", "a-z 0-9 -")),
        (MINIMAL.replace("sqlite:", "db2:"), ("[database] url", "no database is called 'db2'", "sqlite")),
        (MINIMAL.replace("nats:", "natss:"), ("[broker] url", "did you mean 'nats'")),
        (MINIMAL.replace("nats://127.0.0.1", "localhost"), ("[broker] url", "is not a URL", "scheme://")),
        (MINIMAL.replace('"nats', "'' # nats"), ("[broker] url", "is empty")),
        (MINIMAL.replace('= "orders"', "= orders"), ("is not valid TOML", "line 2", "texts need quotes")),
        (MINIMAL.replace("nats://127.0.0.1", "nats://${NATS_HOST}"), ("[broker] url", "NATS_HOST, which is not set")),
    ],
)
def test_h4_wrong_file(tmp_path: Path, text: str, expected: tuple[str, ...]) -> None:
    shown = str(refused(tmp_path, text))
    for part in expected:
        assert part in shown, shown
    assert "fencepost.toml" in shown


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"FENCEPOST_RELAY__BACH": "1"}, ("unknown key [relay] bach", "FENCEPOST_RELAY__BACH", "did you mean 'batch'")),
        ({"FENCEPOST_RELLAY__BATCH": "1"}, ("unknown section [rellay]", "did you mean 'relay'")),
        ({"FENCEPOST_DATABASE_URL": "x"}, ("FENCEPOST_DATABASE_URL", "did you mean FENCEPOST_DATABASE__URL")),
        ({"FENCEPOST_BROKER": "x"}, ("FENCEPOST_BROKER means nothing", "did you mean FENCEPOST_BROKER__URL?")),
        ({"FENCEPOST_RELAY": "x"}, ("FENCEPOST_RELAY means nothing", "did you mean FENCEPOST_RELAY__NAME?")),
        ({"FENCEPOST_BROKER__": "x"}, ("FENCEPOST_BROKER__ means nothing", "did you mean FENCEPOST_BROKER__URL?")),
        ({"FENCEPOST_BROKERS": "x"}, ("FENCEPOST_BROKERS means", "did you mean FENCEPOST_BROKERS__NAME__URL?")),
        ({"FENCEPOST_BROKERS__B": "x"}, ("FENCEPOST_BROKERS__B means", "did you mean FENCEPOST_BROKERS__B__URL?")),
        ({"FENCEPOST_ROUTES__R": "x"}, ("FENCEPOST_ROUTES__R means", "did you mean FENCEPOST_ROUTES__R__")),
        ({"FENCEPOST_RELAY__BATCH": "ten"}, ("[relay] batch", "FENCEPOST_RELAY__BATCH", "'ten'", "a whole number")),
        ({"FENCEPOST_RELAY__BATCH": "1_0"}, ("[relay] batch", "a whole number")),
        ({"FENCEPOST_RELAY__POLL_S": "soon"}, ("[relay] poll_s", "a number")),
        ({"FENCEPOST_BROKER__URL": " nats://h:1"}, ("[broker] url", "blanks around")),
        ({"FENCEPOST_BROKER__CREATE": "yes"}, ("[broker] create", "'yes'", "true or false")),
    ],
)
def test_h4_wrong_environment(tmp_path: Path, env: dict[str, str], expected: tuple[str, ...]) -> None:
    shown = str(refused(tmp_path, MINIMAL, env))
    for part in expected:
        assert part in shown, shown


def test_h4_blanks_around_a_variable_are_refused(tmp_path: Path) -> None:
    text = MINIMAL.replace("sqlite:///orders.db", "postgresql://app:${PW}@db/shop")
    shown = str(refused(tmp_path, text, {"PW": "hunter22\n"}))
    assert "PW, which has blanks or line ends around its value" in shown
    assert "hunter22" not in shown


def test_h4_several_at_once(tmp_path: Path) -> None:
    text = MINIMAL.replace("sqlite:", "db2:") + "crate = true\n[relay2]\nx = 1\n[log]\nlevel = 3\n"
    error = refused(tmp_path, text, {"FENCEPOST_RELAY__BACH": "1"})
    assert isinstance(error, ConfigurationErrors)
    whats = [single.what for single in error.errors]
    assert len(whats) == 5, whats
    for part in ("db2", "[relay2]", "[log] level", "bach", "[broker] crate"):
        assert any(part in what for what in whats), whats
    assert all(single.remedy for single in error.errors)


@pytest.mark.parametrize(
    ("url", "lines", "expected"),
    [
        ("nats://h", ['steam = "x"'], ["[broker] steam ({} line 9): the NATS broker has no setting 'steam'"]),
        ("nats://h", ["replicas = 0"], ["[broker] replicas ({} line 9): the NATS setting replicas = 0 is not usable"]),
        (
            "nats://h:port",
            ["replicas = 0", 'stream = "a b"', 'tls_cert = "x"'],
            ["[broker] url ({} line 8)", "replicas ({} line 9)", "stream ({} line 10)", "tls_cert ({} line 11)"],
        ),
        (
            "kafka://h",
            ['partitoner = "x"', "partitions = 0", "", "[broker.message]", 'max.bytes = "1MB"'],
            ["partitoner ({} line 9)", "partitions ({} line 10)", "message.max.bytes ({} line 13)"],
        ),
    ],
)
def test_h4_a_plug_ins_own_keys(tmp_path: Path, url: str, lines: list[str], expected: list[str]) -> None:
    text = MINIMAL.replace("nats://127.0.0.1:4222", url) + "\n".join(lines) + "\n"
    error = refused(tmp_path, text)
    found = error.errors if isinstance(error, ConfigurationErrors) else [error]
    assert len(found) == len(expected), error
    for single, part in zip(found, expected, strict=True):
        assert part.format(tmp_path / "fencepost.toml") in single.what
        assert single.remedy


@pytest.mark.parametrize(
    ("url", "key", "meant"), [("nats://h", "steam", "stream"), ("kafka://h", "partitoner", "partitioner")]
)
def test_h4_the_nearest_key_of_a_plug_in(tmp_path: Path, url: str, key: str, meant: str) -> None:
    env = {f"FENCEPOST_BROKER__{key.upper()}": "x", "FENCEPOST_BROKER__URL": url}
    error = refused(tmp_path, MINIMAL, env)
    assert f"[broker] {key} (environment variable FENCEPOST_BROKER__{key.upper()})" in error.what
    assert error.remedy.startswith(f"did you mean {meant!r}? known are ")


def test_a_plug_in_that_cannot_be_asked_is_not(tmp_path: Path) -> None:
    """It says later what it does not take."""
    for url in ("somebody.elses://x", "json.decoder://x", "memory://x"):
        text = MINIMAL.replace("nats://127.0.0.1:4222", url) + "nonsense = 1\n"
        assert read(tmp_path, text).broker.settings == {"nonsense": 1}


def test_h4_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationErrors, match=r"\[relay\] name is missing .*fencepost init"):
        load(None, {})
    with pytest.raises(ConfigurationError, match=r"there is no file .*gone\.toml: run `fencepost init`"):
        load(tmp_path / "gone.toml", {})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(tmp_path, {})
    (tmp_path / "latin.toml").write_bytes(b"# \xe4\n")
    with pytest.raises(ConfigurationError, match="not text in UTF-8"):
        load(tmp_path / "latin.toml", {})


# -- secrets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://app:hunter22@db:5432/shop", "postgresql://app:***@db:5432/shop"),
        ("postgresql://app@db/shop?password=hunter22&x=1", "postgresql://app@db/shop?password=***&x=1"),
        ("postgresql://app:hunter22/?#@,x@db/shop", "postgresql://app:***@db/shop"),
        ("nats://u:hunter22@n1:4222,n2:4222,u2:hunter22@n3:4222", "nats://u:***@n1:4222,n2:4222,u2:***@n3:4222"),
        ("nats://u:hunter22@n1:4222,nats://v:hunter22@n2:4222", "nats://u:***@n1:4222,nats://v:***@n2:4222"),
        ("sqlite:///orders.db", "sqlite:///orders.db"),
        ("no url", "no url"),
    ],
)
def test_mask_url(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_mask_url_of_a_token() -> None:
    assert mask_url("nats://t0ken@host:4222", show_user=False) == "nats://***@host:4222"
    assert mask_url("https://host:1/services/t0ken?sig=t0ken", show_user=False) == "https://host:1/***"
    assert mask_url("https://host/", show_user=False) == "https://host/"


def test_a_token_of_any_broker_is_masked(tmp_path: Path) -> None:
    more = '[brokers.other]\nurl = "nats://t0ken@h"\n[routes.other]\ntopics = "o"\nbroker = "other"\n'
    assert masked(read(tmp_path, MINIMAL + more))["brokers.other"]["url"] == "nats://***@h"


def test_masked_and_scrubbed(tmp_path: Path) -> None:
    text = MINIMAL.replace("sqlite:///orders.db", "postgresql://app:${PW}@db/shop").replace("127.0.0.1", "t0ken77@h")
    text += 'password = "s3cret-word"\nuser = "app"\n'
    config = read(tmp_path, text, {"PW": "hunter/22"})
    shown = masked(config)
    assert shown["database"]["url"] == "postgresql://app:***@db/shop"
    assert shown["broker"]["url"] == "nats://***@h:4222"
    assert shown["broker"]["password"] == "***"
    assert shown["broker"]["user"] == "app"
    said = "login hunter/22 or hunter%2F22 with s3cret-word and t0ken77 refused for app; unhunter/22ed"
    assert scrubber(config)(said) == "login *** or *** with *** and *** refused for app; unhunter/22ed"


@pytest.mark.parametrize(
    ("name", "value", "is_shown"),
    [
        ("credentials", "/nope/x.creds", True),
        ("credentials", "x.creds", True),
        ("nkey_seed", "keys/seed.txt", True),
        ("nkey_seed", "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY", False),
        ("credentials", "-----BEGIN NATS USER JWT-----/x", False),
        ("credentials", "eyJ0eXAiOiJKV1QifQ.eyJqdGkiOiJX.SGkgdGhlcmUh1234", False),
        ("token", "/nope/x.creds", False),
    ],
)
def test_the_path_of_a_file_with_secrets_is_none(name: str, value: str, is_shown: bool, tmp_path: Path) -> None:
    config = read(tmp_path, f'{MINIMAL}{name} = "{value}"\n')
    said = f"there is no file {value!r}, which {name} names"
    assert scrubber(config)(said) == (said if is_shown else said.replace(value, "***"))
    assert masked(config)["broker"][name] == (value if is_shown else "***")


@pytest.mark.parametrize(
    "text",
    [
        MINIMAL.replace("sqlite:///", "db2://app:hunter22@"),
        MINIMAL.replace("sqlite:///orders.db", "app:hunter22@db/shop"),
        MINIMAL.replace("sqlite:///orders.db", " postgresql://app:hunter22@db/shop"),
        MINIMAL.replace("[database]", "[database]\nschema = 5\npassword = 'hunter22'"),
        MINIMAL + "[lease]\nurl = 'zookeeper://u:hunter22@h'\n",
        MINIMAL + "password = ' hunter22'\n",
        MINIMAL + "password = ['hunter22']\n",
        MINIMAL.replace('"orders"', '"postgresql://app:hunter22@db"'),
    ],
)
def test_no_secret_in_an_error(tmp_path: Path, text: str) -> None:
    error = refused(tmp_path, text)
    assert "hunter22" not in str(error)
    assert "hunter22" not in repr(error)


# -- the documentation -------------------------------------------------------------------------------------------------


def test_every_key_is_documented_with_its_default() -> None:
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    for section in SECTIONS:
        table = text.partition(f"## `[{section}]`")[2].partition("\n## ")[0]
        for key in rules(section):
            row = next((line for line in table.splitlines() if line.startswith(f"| `{key}` |")), None)
            assert row is not None, f"[{section}] {key} is not documented"
            default = None if key in required(section) else default_of(section, key)
            if default not in (None, "", {}):
                shown = f'"{default}"' if isinstance(default, str) else str(default).lower()
                assert row.split("|")[2].strip() == f"`{shown}`", row
