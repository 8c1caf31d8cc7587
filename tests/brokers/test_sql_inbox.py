"""The inbox table on real databases: what is stored, what is parked, and the tables themselves."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fencepost import app
from fencepost.brokers.sql import broker
from fencepost.config import load
from fencepost.envelope import STRUCTURED, Format
from fencepost.errors import AccessDenied, ParkError, SchemaMissing
from fencepost.ports import BrokerOptions
from fencepost.receipt import RECEIPTS_KEPT
from tests.brokers.rows import ids, row, rows, term
from tests.brokers.sql_kit import LANE, Inbox, inbox_of, login
from tests.docs.pages import TREE, the_block


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def inbox(request: pytest.FixtureRequest) -> Inbox:
    return inbox_of(request)


# ------------------------------------------------------------------------------------------------------- what is stored


async def test_the_columns_of_a_message(inbox: Inbox) -> None:
    async with inbox.handoff() as handoff:
        await handoff.publish([row(7, headers={"trace": "t"}), row(8, key=None, payload=None, in_doubt=True)])
    quote = "`" if inbox.kind == "mysql" else '"'
    names = f"id, topic, {quote}key{quote}, version, type, source, content_type, headers, possible_repeat, lane"
    first, second = inbox.ask(f"SELECT {names} FROM fencepost_messages ORDER BY seq")
    assert first[1:7] == ("orders", "k", 7, "order.created", "/shop", "application/json")
    assert (json.loads(first[7]), bool(first[8]), first[9]) == ({"trace": "t"}, False, "orders.0")
    assert (second[2:4], second[7], bool(second[8])) == ((None, None), None, True)
    ((payload,), (none,)) = inbox.ask("SELECT payload FROM fencepost_messages ORDER BY seq")
    assert (bytes(payload), none) == (b"payload 7", None)


@pytest.mark.parametrize(
    ("form", "content_type", "headers"),
    [
        (Format.CLOUDEVENTS_STRUCTURED, STRUCTURED, {"own": "h"}),
        (Format.PLAIN, "application/json", {"id": "ID", "version": "1", "own": "h"}),
        (None, "application/json", {"message-id": "ID", "mine": "h"}),
    ],
)
async def test_formats_and_other_names(
    on_sqlite: Inbox, form: Format | None, content_type: str, headers: dict[str, str]
) -> None:
    """What has a column of its own is not repeated as a header, unless a format or a map of headers asks for it."""
    names = {} if form else {"ce_id": "message-id", "own": "mine"}
    one = broker(BrokerOptions(url=f"inbox+{on_sqlite.url}", source="/shop", form=form, header_map=names))
    message = row(1, headers={"own": "h"}, payload=b'{"n": 1}')
    handoff = await one.take_over(LANE, term())
    await handoff.publish([message])
    await one.close()
    ((id_, found, given, payload),) = on_sqlite.ask("SELECT id, content_type, headers, payload FROM fencepost_messages")
    expected = {name: message.id if value == "ID" else value for name, value in headers.items()}
    assert (id_, found, json.loads(given)) == (message.id, content_type, expected)
    assert (json.loads(payload)["data"] if form is Format.CLOUDEVENTS_STRUCTURED else json.loads(payload)) == {"n": 1}


async def test_an_id_that_is_no_uuid(inbox: Inbox) -> None:
    """Rows of an existing table have ids of their own kind."""
    async with inbox.handoff() as handoff:
        await handoff.publish([row(1, id="42"), row(2, id="Ä" * 255)])
        outcome = await handoff.publish([row(3, id="x" * 256)])
    assert [str(f.error).partition(": ")[2] for f in outcome.failed] == [
        "its id has 256 characters, 255 are possible: shorten the id"
    ]
    assert inbox.ids() == ["42", "Ä" * 255]


async def test_what_a_constraint_of_the_consumers_refuses_is_parked_alone(inbox: Inbox) -> None:
    """E1: the constraint is the consumer's own; the database says only that a row of the batch is refused."""
    async with inbox.handoff() as handoff:
        await handoff.publish([first := row(1)])
        if inbox.kind == "sqlite":
            inbox.ask(
                "CREATE TRIGGER picky BEFORE INSERT ON fencepost_messages WHEN NEW.topic = 'bad'"
                " BEGIN SELECT RAISE(ABORT, 'no bad topics'); END"
            )
        else:
            inbox.ask("ALTER TABLE fencepost_messages ADD CONSTRAINT picky CHECK (topic <> 'bad')")
        batch = rows(40, start=2)
        batch[5:5] = [row(100, topic="bad")]
        batch[30:30] = [row(101, topic="bad")]
        before = handoff.receipts.named()
        outcome = await handoff.publish(batch)
        assert [f.message.topic for f in outcome.failed] == ["bad", "bad"]
        assert not outcome.published
        assert [isinstance(f.error, ParkError) and not f.error.at_once for f in outcome.failed] == [True, True]
        assert (inbox.ids(), handoff.receipts.named()) == (ids([first]), before)
        good = [m for m in batch if m.topic != "bad"]
        assert list((await handoff.publish(good)).published) == good
    assert inbox.ids() == ids([first, *good])


async def test_a_message_larger_than_a_packet(on_mariadb: Inbox) -> None:
    """E1: limits are counted in bytes, as the client library writes them."""
    async with on_mariadb.opened() as one:
        most = (await one.open()).message_bytes_max or 0
        handoff = await one.take_over(LANE, term())
        fits, quoted, plain = (
            row(1, payload=b"x" * (most - 1000)),
            row(2, payload=b"'" * (most // 2 + 5000)),
            row(3, payload=b"x" * (most + 5000)),
        )
        outcome = await handoff.publish([fits, quoted, plain])
        assert [f.message.position for f in outcome.failed] == [2, 3]
        assert all(isinstance(f.error, ParkError) and f.error.at_once for f in outcome.failed)
        assert all("max_allowed_packet" in f.error.remedy for f in outcome.failed)
        await handoff.publish([fits])
    assert on_mariadb.ask("SELECT length(payload) FROM fencepost_messages") == [(most - 1000,)]


async def test_receipts_do_not_pile_up(on_postgresql: Inbox) -> None:
    async with on_postgresql.handoff() as handoff:
        for n in range(2 * RECEIPTS_KEPT + 10):
            await handoff.publish([row(n + 1)])
    ((kept, lowest, highest),) = on_postgresql.ask(
        "SELECT count(*), min(counter), max(counter) FROM fencepost_messages_receipt"
    )
    assert highest == 2 * RECEIPTS_KEPT + 10
    assert RECEIPTS_KEPT <= kept < 2 * RECEIPTS_KEPT
    assert lowest == highest - kept + 1


# ----------------------------------------------------------------------------------------------------------- the tables


async def test_tables_that_may_not_be_made_are_asked_for_with_their_ddl(inbox: Inbox) -> None:
    async with inbox.opened() as one:  # what a SQLite needs is a file, which is there when the consumer has made it
        await one.prepare(LANE)
    inbox.ask("DROP TABLE fencepost_messages_lane")
    async with inbox.opened(create=False) as one:
        with pytest.raises(SchemaMissing):
            await one.prepare(LANE)
        with pytest.raises(SchemaMissing):
            await one.rehearse(LANE)  # type: ignore[attr-defined]
        with pytest.raises(SchemaMissing, match="no fencepost_messages_lane, or not with all columns") as caught:
            await one.take_over(LANE, term())
        script = caught.value.remedy.partition(":\n")[2]
        for statement in script.split(";\n"):
            if statement:
                inbox.ask(statement)
        await one.rehearse(LANE)  # type: ignore[attr-defined]
        await (await one.take_over(LANE, term())).publish([row(1)])
    assert len(inbox.ids()) == 1


async def test_a_column_that_is_missing_is_told_where_tables_may_be_made_too(inbox: Inbox) -> None:
    async with inbox.opened() as one:
        await one.prepare(LANE)
        inbox.ask("ALTER TABLE fencepost_messages DROP COLUMN source")
        with pytest.raises(SchemaMissing, match="has no fencepost_messages, or not with all columns"):
            await one.take_over(LANE, term())


async def test_opening_makes_nothing(inbox: Inbox) -> None:
    """`fencepost check` opens and rehearses."""
    async with inbox.opened() as one:
        await one.rehearse(LANE)  # type: ignore[attr-defined]
    if inbox.kind == "sqlite":
        assert not inbox.path.exists()
    else:
        with pytest.raises(Exception, match="fencepost_messages"):
            inbox.ids()


@pytest.mark.parametrize("create", ["true", "false"])
async def test_fencepost_check(on_sqlite: Inbox, tmp_path: Path, create: str) -> None:
    """Exactly-once is possible and in force; what is missing is told with its line, or will be made."""
    keys = {
        "RELAY__NAME": "checked",
        "RELAY__DELIVERY": "exactly-once",
        "DATABASE__URL": f"sqlite:///{tmp_path / 'orders.db'}",
        "BROKER__URL": f"inbox+{on_sqlite.url}",
        "BROKER__CREATE": create,
    }
    config = load(None, {f"FENCEPOST_{key}": value for key, value in keys.items()})
    await app.schema(config).apply()
    report = await app.check(config)
    assert report.ok is (create == "true")
    assert report.delivery_possible == ("exactly-once" if create == "true" else None)
    if create == "false":
        (finding,) = [f for f in report.findings if f.part == "broker"]
        assert "CREATE TABLE" in finding.remedy
    assert not on_sqlite.path.exists()


async def test_a_prefix_and_a_schema(on_postgresql: Inbox) -> None:
    async with on_postgresql.handoff(prefix="shop_", schema="inboxes") as handoff:
        await handoff.publish([message := row(1)])
    assert on_postgresql.ask("SELECT id FROM inboxes.shop_messages") == [(message.id,)]


async def test_a_right_that_is_missing_and_those_that_are_enough(on_postgresql: Inbox) -> None:
    name = "relay_" + urlsplit(on_postgresql.url).path[1:].replace("-", "_")
    async with on_postgresql.opened() as one:
        await one.prepare(LANE)
    on_postgresql.ask(f"CREATE ROLE {name} LOGIN")
    try:
        on_postgresql.ask(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {name}")
        async with on_postgresql.opened(url=login(on_postgresql.url, name)) as one:
            grant = "GRANT SELECT, INSERT, DELETE ON fencepost_messages_receipt"
            with pytest.raises(AccessDenied, match=grant) as told:
                await one.rehearse(LANE)  # type: ignore[attr-defined]
            assert "permission denied for table fencepost_messages_receipt" in told.value.what
        on_postgresql.ask(f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {name}")
        grants = the_block(TREE / "docs" / "inbox-table.md", "sql", "rights").text.replace("shop_relay", name)
        for grant in grants.split(";\n")[:-1]:
            on_postgresql.ask(grant)
        async with on_postgresql.opened(url=login(on_postgresql.url, name)) as one:
            await one.rehearse(LANE)  # type: ignore[attr-defined]
            handoff = await one.take_over(LANE, term())
            for n in range(2 * RECEIPTS_KEPT):  # also old receipts are removed
                await handoff.publish([row(n + 1)])
    finally:
        on_postgresql.ask(f"DROP OWNED BY {name}")
        on_postgresql.ask(f"DROP ROLE {name}")
