"""`fencepost check`: it sees what is there already, says what a relay would do, and changes nothing."""

import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from psycopg import sql

from fencepost import app
from fencepost.app import CheckReport, Finding
from fencepost.cli.failures import PROBLEM_FOUND, UNREACHABLE
from fencepost.config import Config, load
from fencepost.errors import AccessDenied, FixError, Unavailable
from fencepost.events import ignore
from tests.brokers.nats_kit import Place
from tests.cli.process import CLOSED, configuration, make_tables, run


def config(
    folder: Path, *, database: str = "", broker: str = "memory://check", name: str = "checked", **settings: str
) -> Config:
    values = {"RELAY__NAME": name, "DATABASE__URL": database or f"sqlite:///{folder}/orders.db"}
    values |= {"BROKER__URL": broker, **{f"BROKER__{name.upper()}": value for name, value in settings.items()}}
    return load(None, {f"FENCEPOST_{name}": value for name, value in values.items()})


def of(report: CheckReport, part: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.part == part]


async def ready(settings: Config) -> Config:
    await app.schema(settings).apply()
    return settings


# ---------------------------------------------------------------------------------------------------------- the broker


def topics(kafka_url: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": kafka_url.removeprefix("kafka://")}).list_topics(timeout=10).topics)


async def test_a_topic_of_receipts_that_is_not_compacted(kafka_url: str, fresh_name: str, tmp_path: Path) -> None:
    """Also where missing topics may be created: a relay would not start."""
    servers = kafka_url.removeprefix("kafka://")
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(fresh_name, 1, 1)]).values():
        future.result(20)
    settings = await ready(config(tmp_path, broker=kafka_url, receipts_topic=fresh_name))
    report = await app.check(settings)
    (finding,) = of(report, "broker")
    assert (finding.level, finding.passes) == ("error", False)
    assert f"the topic {fresh_name} of the receipts has cleanup.policy=delete" in finding.what
    command = f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name {fresh_name}"
    assert f"{command} --add-config cleanup.policy=compact" in finding.remedy
    assert report.delivery_in_force is None


async def test_looking_creates_nothing(kafka_url: str, fresh_name: str, tmp_path: Path) -> None:
    settings = await ready(config(tmp_path, broker=kafka_url, receipts_topic=fresh_name))
    assert (await app.check(settings)).ok
    assert fresh_name not in topics(kafka_url)


async def test_a_topic_of_receipts_that_must_be_there(kafka_url: str, fresh_name: str, tmp_path: Path) -> None:
    settings = await ready(config(tmp_path, broker=kafka_url, receipts_topic=fresh_name, create="false"))
    (finding,) = of(await app.check(settings), "broker")
    assert finding.what == f"the topic {fresh_name} of the receipts does not exist"
    assert f"--create --topic {fresh_name} --partitions 1 --config cleanup.policy=compact" in finding.remedy


@pytest.fixture
async def taken(nats_url: str, fresh_name: str) -> AsyncIterator[Place]:
    """Another program's stream, which has every subject that begins with its name."""
    place = Place(nats_url, fresh_name)
    await place.make(subjects=[f"{fresh_name}.>"])
    yield place
    await place.drop()


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_subject_that_another_stream_has(taken: Place, is_there: bool, tmp_path: Path) -> None:
    """Also where the relay's own stream is there, or may be created: the server would refuse it."""
    own = Place(taken.url, f"{taken.name}-own")
    subjects = f"{taken.name}.orders,{own.name}.x"
    settings = await ready(config(tmp_path, broker=taken.url, stream=own.name, subjects=subjects))
    if is_there:
        await own.make()
    try:
        report = await app.check(settings)
        (finding,) = of(report, "broker")
        assert (finding.level, finding.passes) == ("error", False)
        assert f"the stream {own.name} cannot take" in finding.what
        assert f"subject '{taken.name}.orders' belongs to the stream {taken.name}" in finding.what
        assert "subject_prefix" in finding.remedy
        assert report.delivery_in_force is None
        if not is_there:
            assert f"{own.name}.x' belongs" not in finding.what
            with pytest.raises(FixError, match=f"'{taken.name}.orders' belongs to the stream {taken.name}"):
                await app.relay(settings, ignore).run()
    finally:
        await own.drop()


async def test_subjects_of_ones_own_and_free_ones_pass(nats_url: str, fresh_name: str, tmp_path: Path) -> None:
    own = Place(nats_url, fresh_name)
    settings = await ready(config(tmp_path, broker=nats_url, stream=own.name, subjects=f"{own.name}.>"))
    assert (await app.check(settings)).ok
    await own.make()
    try:
        assert (await app.check(settings)).ok
    finally:
        await own.drop()


async def test_receipts_that_another_stream_has(nats_url: str, fresh_name: str, tmp_path: Path) -> None:
    """A relay of the same name, with another stream."""
    taken = Place(nats_url, fresh_name)
    await taken.make()
    try:
        settings = await ready(config(tmp_path, broker=nats_url, stream=f"{fresh_name}-own", name=fresh_name))
        (finding,) = of(await app.check(settings), "broker")
        assert f"'fencepost.receipt.{fresh_name}.*' belongs to the stream {fresh_name}" in finding.what
    finally:
        await taken.drop()


# ------------------------------------------------------------------------------------------------ what a relay would do


def test_servers_that_cannot_be_reached_are_waited_for(tmp_path: Path) -> None:
    configuration(tmp_path, database="sqlite:///orders.db", broker=f"nats://{CLOSED}")
    make_tables(tmp_path)
    result = run("check", cwd=tmp_path)
    assert result.returncode == UNREACHABLE, result.stdout
    assert "a relay would wait, and try again until it works; delivery possible: unknown" in result.stdout
    assert "would not start" not in result.stdout


def test_one_thing_that_a_person_must_change_is_enough_not_to_start(tmp_path: Path) -> None:
    configuration(tmp_path, database="sqlite:///orders.db", broker=f"nats://{CLOSED}")
    result = run("check", cwd=tmp_path)
    assert result.returncode == PROBLEM_FOUND, result.stdout
    assert "a relay would not start; delivery possible: unknown" in result.stdout


def test_a_report_waits_only_for_what_passes() -> None:
    def report(*errors: Exception) -> CheckReport:
        findings = tuple(app.findings.failed("database", error) for error in errors)  # type: ignore[arg-type]
        return CheckReport(findings=findings, delivery_possible=None, delivery_in_force=None, delivery_reason="")

    assert not report().waits
    assert report(Unavailable("away")).waits
    assert not report(Unavailable("away"), AccessDenied("no")).waits


# ------------------------------------------------------------------------------------------- what may not be written to


def leases_apart(settings: Config, url: str) -> Config:
    """The same place under another URL, so that what is wrong with it is told of the leases, too."""
    return replace(settings, lease=replace(settings.lease, url=url))


async def test_a_file_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is root may write everything, so the system's answer is played here."""
    settings = await ready(config(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "orders.db")
    assert [f.part for f in (await app.check(settings)).findings if f.level == "error"] == ["database"]
    report = await app.check(leases_apart(settings, f"sqlite:///{tmp_path}/./orders.db"))
    (database,), (lease,) = of(report, "database"), of(report, "lease")
    assert "read-only" in database.what
    assert lease.what.startswith("no lease can be taken or kept: ")
    assert lease.remedy == "let the user of this process write to it"
    assert not report.waits


async def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal stands there."""
    settings = await ready(config(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name == "orders.db")
    report = await app.check(leases_apart(settings, f"sqlite:///{tmp_path}/./orders.db"))
    for part in ("database", "lease"):
        (finding,) = of(report, part)
        assert finding.level == "error"
        assert str(tmp_path) in finding.what


@pytest.fixture
def role(fresh_database: str, fresh_name: str) -> Iterator[str]:
    """The address of the database for a role that may do all that a relay does, except with leases."""
    rights = "GRANT SELECT, INSERT, UPDATE, DELETE ON fencepost_outbox, fencepost_parked, fencepost_lane TO {}"
    name = sql.Identifier(fresh_name)
    parts = urlsplit(fresh_database)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        for statement in app.schema(config(Path(), database=fresh_database)).statements():
            connection.execute(statement.encode())
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
        try:
            connection.execute(sql.SQL(rights).format(name))
            connection.execute(sql.SQL("GRANT SELECT ON fencepost_lease TO {}").format(name))
            connection.execute(sql.SQL("GRANT USAGE ON SEQUENCE fencepost_outbox_seq_seq TO {}").format(name))
            yield urlunsplit(parts._replace(netloc=f"{fresh_name}@{parts.hostname}:{parts.port}"))
        finally:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(name))
            connection.execute(sql.SQL("DROP ROLE {}").format(name))


async def test_leases_that_may_be_read_only(role: str, tmp_path: Path) -> None:
    report = await app.check(config(tmp_path, database=role))
    assert [finding.level for finding in of(report, "database")] == ["ok"]
    (lease,) = of(report, "lease")
    assert "this user may not INSERT and UPDATE fencepost_lease" in lease.what
    assert lease.remedy == "GRANT SELECT, INSERT, UPDATE ON fencepost_lease TO ..."


async def test_a_role_that_reads_only(role: str, fresh_database: str, fresh_name: str, tmp_path: Path) -> None:
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        frozen = "ALTER ROLE {} SET default_transaction_read_only = on"
        connection.execute(sql.SQL(frozen).format(sql.Identifier(fresh_name)))
    report = await app.check(leases_apart(config(tmp_path, database=role), f"{role}?application_name=leases"))
    for part in ("database", "lease"):
        (finding,) = of(report, part)
        assert "read-only" in finding.what
        assert "default_transaction_read_only" in finding.remedy
    assert report.waits, "a standby may be promoted"


# ------------------------------------------------------------------------------------------------- what could be better


async def test_the_advice_about_a_database_is_shown(tmp_path: Path) -> None:
    settings = await ready(config(tmp_path))
    report = await app.check(settings)
    assert report.ok
    connected, advice = of(report, "database")
    assert (connected.level, advice.level) == ("ok", "warning")
    assert "PRAGMA journal_mode = WAL" in advice.what
    with closing(sqlite3.connect(tmp_path / "orders.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert len(of(await app.check(settings), "database")) == 1


async def test_one_message_is_not_many(tmp_path: Path) -> None:
    from fencepost import Outbox

    settings = await ready(config(tmp_path))
    with closing(sqlite3.connect(tmp_path / "orders.db")) as connection, connection:
        Outbox().add(connection, "orders", 1, key="1")
        connection.execute(
            "INSERT INTO fencepost_parked SELECT *, 1, '2026-03-01 00:00:00.000000', 'x' FROM (SELECT "
            "id, topic, key, version, type, slot, payload, content_type, headers, occurred_at, "
            "available_at, attempts FROM fencepost_outbox)"
        )
    said = [finding.what for finding in of(await app.check(settings), "database")]
    assert said[0].endswith("connected, 1 message waiting")
    assert "1 message parked" in said


# ------------------------------------------------------------------------------------------------------------ one cause


@pytest.mark.parametrize(
    ("file", "said"),
    [("orders.db", "these tables are missing: "), ("gone/orders.db", "there is no folder ")],
)
async def test_a_file_that_is_not_there_is_told_once(file: str, said: str, tmp_path: Path) -> None:
    """The leases are in it too."""
    report = await app.check(config(tmp_path, database=f"sqlite:///{tmp_path}/{file}"))
    (error,) = [finding for finding in report.findings if finding.level == "error"]
    assert error.part == "database"
    assert said in error.what


async def test_a_server_that_is_away_is_told_once_and_one_of_the_leases_besides(tmp_path: Path) -> None:
    away = config(tmp_path, database=f"postgresql://u@{CLOSED}/shop")
    assert [f.part for f in (await app.check(away)).findings if f.level == "error"] == ["database"]
    elsewhere = replace(away, lease=replace(away.lease, url=f"postgresql://u@{CLOSED}/leases"))
    assert [f.part for f in (await app.check(elsewhere)).findings if f.level == "error"] == ["database", "lease"]
