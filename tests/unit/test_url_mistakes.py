"""A URL that cannot be meant is told with its line before anything is connected, and a slip with what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost import app
from fencepost.brokers.http.routes import url_fault
from fencepost.config import load
from fencepost.errors import ConfigurationError
from fencepost.servers import check_password
from fencepost.sql.client import client
from fencepost.sql.postgresql_address import dsn_of
from fencepost.words import meant

DATABASES = {
    "sqlite://": ("names no file", "write sqlite:///"),
    "sqlite://host/x.db": ("SQLite has none", "three slashes"),
    "postgresql://h:5x/shop": ("is no port", "write postgresql://"),
    "postgresql://h/shop?sslmoed=require": ("option 'sslmoed'", "did you mean 'sslmode'?"),
    "postgresql://h/shop?sslrootcrt=ca.pem": ("option 'sslrootcrt'", "did you mean 'sslrootcert'?"),
    "postgresql://h/shop?sslmode=requires": ("sslmode=requires", "did you mean 'require'?"),
    "mariadb://h": ("names no database", "write mariadb://"),
    "mysql://h:99999/shop": ("99999 is no port", "write mariadb://"),
    "mysql://h/shop?ssl_caa=ca.pem": ("option 'ssl_caa'", "did you mean 'ssl_ca'?"),
    "redis://h/shop": ("'shop' is not a database", "write redis://"),
    "redis://h:99999/0": ("is no port", "write redis://"),
    "rediss://h/0?ssl_ca_cert=ca.pem": ("'ssl_ca_cert'", "did you mean 'ssl_ca_certs'?"),
    "redis://h/0?ssl_ca_certs=ca.pem": ("'ssl_ca_certs'", "rediss:// for TLS"),
    "redis+sentinel://h:26379/name?cleint_name=x": ("'cleint_name'", "did you mean 'client_name'?"),
    "mongodb://h:27017": ("names no database", "write mongodb://h:27017/database"),
    "mongodb://h:2701x/shop": ("does not say where a MongoDB is", "write mongodb://"),
    "mongodb://h:99999/shop": ("does not say where a MongoDB is", "write mongodb://"),
    "mongodb://h/shop?replicaSte=rs0": ("option 'replicaste'", "did you mean 'replicaset'?"),
    "mongodb://h/shop?collection=orders": ("option 'collection'", "did you mean 'collections'?"),
    "mongodb-embedded://h/shop?collection=orders": ("option 'collection'", "did you mean 'collections'?"),
    "dynamodb://eu-west-1/?endpont=http://h:8000": ("has no 'endpont'", "did you mean 'endpoint'?"),
    "dynamodb://eu-west-1/?endpoint=http://h:8x": ("endpoint is not the address", "write endpoint="),
    "dynamodb://eu-west-1/?endpoint=http://h:99999": ("endpoint is not the address", "write endpoint="),
}
BROKERS = {
    "nats://h:4222?tls_ca=ca.pem": ("has no options, and this one has 'tls_ca'", "a setting of its own"),
    "nats://h:4x": ("is not the address", "write nats://"),
    "nats://h:4222/path": ("has no path", "write nats://"),
    "nats://h:4222#x": ("has no part behind #", "write nats://"),
    "nats://u:p@h:4222,nats://v:p@i:4222": ("several logins", "write one"),
    "mqtt://h:1883#x": ("is not the address", "write mqtt://"),
    "kafka://h:0": ("'h:0' is not the address", "write kafka://"),
    "kafka://h:65536": ("'h:65536' is not the address", "write kafka://"),
    "kafka://h:9092/path": ("has no path", "write kafka://"),
    "kafka://h:9092?acks=1": ("has no options, and this one has 'acks'", "write kafka://"),
}


RAW = ["sec/", "sec?", "sec#", "sec/@:#", "sec[", "12/", "12?", "12#"]
"""The beginning of a password in which not every character is escaped; "ret" is its end."""


def written(folder: Path, database: str, broker: str = "memory://shop") -> Path:
    file = folder / "fencepost.toml"
    file.write_text(f'[relay]\nname = "shop"\n[database]\nurl = "{database}"\n[broker]\nurl = "{broker}"\n')
    return file


@pytest.mark.parametrize("url", DATABASES)
def test_the_url_of_a_database(url: str, tmp_path: Path) -> None:
    config = load(written(tmp_path, url), {})
    for build in (app.source, app.schema, app.lease_store):
        with pytest.raises(ConfigurationError) as told:
            build(config)
        said, remedy = DATABASES[url]
        assert told.value.what.startswith(f"[database] url ({tmp_path}/fencepost.toml line 4): ")
        assert said in told.value.what
        assert remedy in told.value.remedy


@pytest.mark.parametrize("url", BROKERS)
def test_the_url_of_a_broker(url: str, tmp_path: Path) -> None:
    config = load(written(tmp_path, "memory://shop", url), {})
    with pytest.raises(ConfigurationError) as told:
        app.broker(config)
    said, remedy = BROKERS[url]
    assert told.value.what.startswith(f"[broker] url ({tmp_path}/fencepost.toml line 6): ")
    assert said in told.value.what
    assert remedy in told.value.remedy


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/shop?sslmode=verify-full&connect_timeout=3&search_path=shop&tcp_keepalives_idle=9",
        "mysql://h/shop?charset=utf8mb4&ssl_verify_cert=true&ssl_cipher=x&ssl_mode=REQUIRED&read_timeout=3",
        "rediss://h/0?health_check_interval=5&ssl_cert_reqs=none",
        "mongodb://a:1,b:2/shop?replicaSet=rs0&w=majority&appName=shop&tls=true&j=true",
        "mongodb+srv://u:p%40@cluster.example/shop?retryWrites=true&srvMaxHosts=2",
        "mongodb-embedded://h/shop?collections=orders",
    ],
)
def test_what_the_driver_or_another_one_knows_passes(url: str, tmp_path: Path) -> None:
    app.source(load(written(tmp_path, url), {}))


@pytest.mark.parametrize("raw", RAW)
@pytest.mark.parametrize(
    "url", ["mongodb://app:{}ret@h/shop", "redis://:{}ret@h/0", "redis://app:{}ret@h", "postgresql://app:{}ret@h/shop"]
)
def test_no_part_of_a_password_is_shown(url: str, raw: str, tmp_path: Path) -> None:
    config = load(written(tmp_path, url.format(raw)), {})
    for build in (app.source, app.lease_store):
        with pytest.raises(ConfigurationError) as told:
            build(config)
        assert "sec" not in str(told.value).replace(str(tmp_path), "")
        assert "ret" not in str(told.value).replace(str(tmp_path), "")
        assert "%2F for /" in told.value.remedy


@pytest.mark.parametrize("url", ["mysql://app:{}ret@h/shop", "mssql://app:{}ret@h/shop", "oracle://app:{}ret@h/?a=b"])
@pytest.mark.parametrize("raw", ["sec@", "sec/@:#", "sec@x/", "sec@x?"])
def test_a_second_at_sign(url: str, raw: str, tmp_path: Path) -> None:
    """What reads these URLs takes any other character of a password as it is."""
    with pytest.raises(ConfigurationError) as told:
        app.source(load(written(tmp_path, url.format(raw)), {}))
    assert "sec" not in str(told.value).replace(str(tmp_path), "")
    assert "ret" not in str(told.value).replace(str(tmp_path), "")
    assert "%40 for @" in told.value.remedy


def test_passwords_that_sqlalchemy_reads_as_they_are(tmp_path: Path) -> None:
    for url in ("mysql://app:s/e?c#r:e[t@h/shop", "mysql://app@h/sh@p"):
        app.source(load(written(tmp_path, url), {}))


@pytest.mark.parametrize("raw", RAW)
@pytest.mark.parametrize(
    "url",
    [
        "nats://app:{}ret@h:4222",
        "nats://app:{}ret@h,i",
        "amqp://app:{}ret@h/",
        "mqtt://app:{}ret@h",
        "https://app:{}ret@h/x",
        "redis://app:{}ret@h",
        "inbox+postgresql://app:{}ret@h/shop",
    ],
)
def test_no_part_of_a_broker_s_password_is_shown(url: str, raw: str, tmp_path: Path) -> None:
    config = load(written(tmp_path, "memory://shop", url.format(raw)), {})
    with pytest.raises(ConfigurationError) as told:
        app.broker(config)
    assert "sec" not in str(told.value).replace(str(tmp_path), "")
    assert "ret" not in str(told.value).replace(str(tmp_path), "")
    assert "%2F for /" in told.value.remedy


@pytest.mark.parametrize(
    "url",
    [
        "nats://app:secret",
        "nats://app:sec,ret@h",
        "nats://h:1/secret",
        "amqp://app:secret",
        "mqtt://app:secret",
        "kafka://app:secret",
        "kafka://h:1?x=secret",
        "redis://app:secret",
        "redis+sentinel://app:secret/name",
        "sqs://secret:x/",
        "sqs://key:sec/ret@eu/",
        "sns://[secret/",
        "file://app:secret@h/x",
        "http://127.0.0.1:99999/secret",
        "http://[::1:80/secret",
        "https://h/secret#secret",
        "https://h/secret/{x}",
    ],
)
def test_what_may_be_a_secret_is_not_repeated(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as told:
        app.broker(load(written(tmp_path, "memory://shop", url), {}))
    assert "sec" not in str(told.value).replace(str(tmp_path), "")
    assert "ret" not in str(told.value).replace(str(tmp_path), "")


@pytest.mark.parametrize("url", ["postgresql://app:s@cret@h/shop", "postgresql://app:s%40cret@h/shop"])
def test_the_place_of_a_lease_in_postgresql(url: str) -> None:
    """The driver takes the last @ for the end of the password."""
    assert client(url, 1.0).place == "postgresql://app:***@h/shop"


def test_an_at_sign_where_it_belongs() -> None:
    check_password("mongodb://app:sec%2Fret@h/shop?authMechanismProperties=SERVICE_HOST:a@b")
    check_password("mongodb://h/shop")
    assert dsn_of("postgresql:///shop?host=h&user=me@tenant")
    assert url_fault("https://h:8080/hooks?to=a@b") is None
    assert url_fault("https://h?to=a@b") is None


def test_a_slip_is_close_to_what_is_known() -> None:
    assert meant("collection", ["collections"]) == "collections"
    assert meant("collections", ["collections", "collection"]) is None
    assert meant("charset", ["ssl_ca", "ssl"]) is None
