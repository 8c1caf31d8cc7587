"""What each of the databases has otherwise: limits, locks, clocks, names, and nothing that only another one knows."""

from __future__ import annotations

import re

import pytest

from fencepost.sql.other import dialect_of
from fencepost.sql.outbox import add_statements
from fencepost.sql.source_other import AT_ONCE, RelayStatements
from fencepost.sql.tables import tables
from tests.sql_dialects.texts import NAMES, adding, everything, leading, partless, relaying

# The words that each manual reserves, as far as a column or a parameter of ours could be called so.
ORACLE_WORDS = set(
    re.findall(
        r"\w+",
        """
    access add all alter and any as asc audit between by char check cluster column comment compress connect create
    current date decimal default delete desc distinct drop else exclusive exists file float for from grant group having
    identified immediate in increment index initial insert integer intersect into is level like lock long maxextents
    minus mlslabel mode modify noaudit nocompress not nowait null number of offline on online option or order pctfree
    prior public raw rename resource revoke row rowid rownum rows select session set share size smallint start
    successful synonym sysdate table then to trigger uid union unique update user validate values varchar varchar2 view
    whenever where with
    """,
    )
)
MSSQL_WORDS = set(
    re.findall(
        r"\w+",
        """
    add all alter and any as asc backup begin between break browse bulk by cascade case check checkpoint close clustered
    coalesce collate column commit compute constraint contains continue convert create cross current cursor database
    dbcc deallocate declare default delete deny desc disk distinct double drop dump else end escape except exec execute
    exists exit external fetch file for foreign from full function goto grant group having holdlock identity if in index
    inner insert intersect into is join key kill left like lineno load merge national nocheck not null nullif of off
    offsets on open option or order outer over percent pivot plan primary print proc procedure public raiserror read
    readtext references replication restore restrict return revert revoke right rollback rowcount rule save schema
    select set setuser shutdown some statistics table textsize then to top tran transaction trigger truncate try_convert
    union unique unpivot update updatetext use user values varying view waitfor when where while with
    """,
    )
)
RESERVED = {"oracle": ORACLE_WORDS, "mssql": MSSQL_WORDS}
COLUMNS = sorted({column.name for table in tables().metadata.tables.values() for column in table.c})

FOREIGN = {
    "cockroachdb": r"pg_notify|advisory|xmin|pg_snapshot|txid|READPAST|UPDLOCK|SYSTIMESTAMP|SYSUTC|make_interval",
    "mssql": r"LIMIT \?|FOR UPDATE|SKIP LOCKED|ON CONFLICT|RETURNING|SYSTIMESTAMP|\bTEXT\b|::|\b(?:true|false|clock_)",
    "oracle": r"\bLIMIT\b|ON CONFLICT|RETURNING|SYSUTCDATETIME|UPDLOCK|::|\b(?:true|false|BOOLEAN|clock_timestamp)\b",
}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_said_that_only_another_database_knows(name: str) -> None:
    for what, text in everything(name).items():
        found = re.search(FOREIGN[name], text, re.IGNORECASE)
        assert found is None, (what, found)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_no_reserved_word_is_a_bare_name(name: str) -> None:
    at_stake = [column for column in COLUMNS if column in RESERVED[name]]
    assert at_stake == {"oracle": ["session"], "mssql": ["key"]}[name]
    for what, text in everything(name).items():
        for column in at_stake:
            bare = re.search(rf"(?<![\[\"\w:]){column}(?![\]\"\w])(?!\s*(?:NONCLUSTERED|\())", text)
            assert bare is None or (name, text[bare.start() - 8 : bare.end()]) == ("mssql", "PRIMARY KEY"), (what, text)


def test_oracle_has_no_parameter_called_by_a_reserved_word() -> None:
    named = {word for text in everything("oracle").values() for word in re.findall(r":(\w+)", text)}
    assert {"topic", "key", "most_", "position_0"} <= named
    assert not {word.lower() for word in named} & ORACLE_WORDS
    assert not [word for word in named if word.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ["pending", "pending_in_slots", "below", "below_in_slots", "due"])
def test_a_read_has_a_limit(name: str, what: str) -> None:
    text = relaying(name, tables())[f"relay {what}"]
    assert text.endswith(
        {
            "cockroachdb": "::INTEGER",
            "mssql": "OFFSET 0 ROWS FETCH FIRST ? ROWS ONLY",
            "oracle": "FETCH FIRST :most_ ROWS ONLY",
        }[name]
    )
    assert (" LIMIT $" in text) is (name == "cockroachdb")
    assert " ORDER BY fencepost_outbox." in text


@pytest.mark.parametrize("name", NAMES)
def test_reads_of_a_relay_lock_nothing(name: str) -> None:
    """C6: not even where SQL Server's hints would pass over what somebody has locked, and so over the order."""
    texts = relaying(name, tables())
    for what in ("pending", "pending_in_slots", "below", "below_in_slots", "due", "held", "backlog", "next_due"):
        assert not re.search(r"FOR UPDATE|UPDLOCK|READPAST|NOLOCK|HOLDLOCK", texts[f"relay {what}"]), what


@pytest.mark.parametrize("name", NAMES)
def test_what_is_delayed_is_not_passed_by_a_read(name: str) -> None:
    """C9: one index begins with it, or has none of it; so the condition must be there."""
    text = relaying(name, tables())["relay pending"]
    assert "fencepost_outbox.state IN (0, 1)" in text
    assert ("fencepost_outbox.available_at IS NULL" in text) is partless(name)


@pytest.mark.parametrize("name", NAMES)
def test_settle_matches_position_and_id_together(name: str) -> None:
    text = relaying(name, tables())["relay settle"]
    assert text.count("fencepost_outbox.id = ") == AT_ONCE
    assert text.count("fencepost_outbox.seq = ") == AT_ONCE
    assert text.count(" OR ") == AT_ONCE - 1
    assert text.count("fencepost_outbox.seq IN (") == 1  # by which the rows are found
    parameters = len(re.findall(r"\?|\$\d+|:position_\d+|:id_\d+", text))
    assert parameters <= 2_000  # SQL Server takes 2,100


@pytest.mark.parametrize("name", NAMES)
def test_the_entity_is_locked_before_the_message_is_written(name: str) -> None:
    """B4: the position is drawn by the INSERT, which is another statement, and comes after the lock."""
    texts = adding(name)
    assert texts["add given"].startswith("INSERT INTO fencepost_outbox (id, ")
    assert "seq" not in texts["add given"].partition("VALUES")[0]
    if partless(name):
        lock = {"mssql": " WITH (UPDLOCK, ROWLOCK) WHERE", "oracle": " FOR UPDATE"}[name]
        assert lock in texts["add lock"]
        assert re.search(r"INSERT INTO fencepost_entity .*, 0\)$", texts["add first"])
        assert texts["add put"].startswith("UPDATE fencepost_entity SET version=")
        assert "add entity_drawn" not in texts
    else:
        assert (
            "ON CONFLICT (topic, key) DO UPDATE SET version = (fencepost_entity.version + " in texts["add entity_drawn"]
        )
        assert " WHERE fencepost_entity.version < excluded.version RETURNING " in texts["add entity_given"]


def test_oracle_is_told_a_time_as_text_of_six_digits() -> None:
    """B9: a datetime that is bound may be taken for a DATE, which has no fractions of a second."""
    text = adding("oracle")["add given"]
    for column in ("occurred_at", "available_at"):
        assert f"to_timestamp(:{column}, 'YYYY-MM-DD HH24:MI:SS.FF6')" in text


def test_sql_server_takes_a_missing_payload_for_bytes() -> None:
    assert "CAST(? AS VARBINARY(max))" in adding("mssql")["add given"]


@pytest.mark.parametrize("name", NAMES)
def test_the_clock_is_the_database_s_and_utc(name: str) -> None:
    """F3"""
    texts = {**relaying(name, tables()), **leading(name, tables())}
    clock = {"cockroachdb": "clock_timestamp()", "mssql": "SYSUTCDATETIME()", "oracle": "SYS_EXTRACT_UTC(SYSTIMESTAMP)"}
    for what in (
        "relay due",
        "relay next_due",
        "relay backlog",
        "relay park",
        "lease take",
        "lease renew",
        "lease read",
    ):
        assert clock[name] in texts[what], what
    assert not [what for what, text in texts.items() if re.search(r"SYSDATE\b|GETDATE|CURRENT_TIMESTAMP", text)]


@pytest.mark.parametrize("name", NAMES)
def test_a_lease_is_taken_under_its_lock_and_by_its_token(name: str) -> None:
    texts = leading(name, tables())
    lock = {"mssql": "WITH (UPDLOCK, ROWLOCK, READPAST)"}.get(name, "FOR UPDATE SKIP LOCKED")
    assert lock in texts["lease lock"]
    assert re.search(r"SET owner=\S+, token=\(fencepost_lease\.token \+ ", texts["lease take"])
    for what, columns in (("take", ("name", "token")), ("renew", ("name", "owner", "token"))):
        condition = texts[f"lease {what}"].partition(" WHERE ")[2]
        assert re.findall(r"fencepost_lease\.(\w+) = ", condition) == list(columns)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_row_of_a_lease_is_made_once(name: str) -> None:
    """One of many that come at once has an effect, and none of them gets an error."""
    text = leading(name, tables())["lease seed"]
    if name == "cockroachdb":
        assert text.endswith("ON CONFLICT DO NOTHING")
        return
    assert "WHERE NOT (EXISTS (SELECT 1 FROM fencepost_lease" in text
    known = {
        "oracle": "INSERT /*+ IGNORE_ROW_ON_DUPKEY_INDEX(fencepost_lease (name)) */ INTO",
        "mssql": "(UPDLOCK, HOLDLOCK)",
    }
    assert known[name] in text


@pytest.mark.parametrize("name", NAMES)
def test_no_lease_is_taken_from_a_session_that_seems_gone(name: str) -> None:
    """CockroachDB's advisory locks lock nothing, and the others' are not used: a row must say so whatever it holds."""
    assert "0 AS gone" in leading(name, tables())["lease read"]


def test_positions_are_passed_over_in_each_own_way() -> None:
    """A15"""
    t = tables()
    assert relaying("oracle", t)["relay draw"] == (
        "SELECT fencepost_outbox_seq.NEXTVAL FROM dual CONNECT BY LEVEL <= :count_"
    )
    assert "nextval(pg_get_serial_sequence('fencepost_outbox', 'seq'))" in relaying("cockroachdb", t)["relay draw"]
    mssql = relaying("mssql", t)
    assert mssql["relay at"].startswith("INSERT INTO fencepost_outbox (seq, ")
    assert "OBJECT_ID(N'fencepost_outbox')" in mssql["relay last drawn"]


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_and_a_prefix_are_in_every_statement(name: str) -> None:
    t = tables(schema="shop", prefix="out_")
    texts = {**relaying(name, t), **leading(name, t)}
    made = add_statements(dialect_of(name), schema="shop", prefix="out_", versions="counter")
    texts["add"] = made.given.text
    for what, text in texts.items():
        assert "shop.out_" in text, what
        assert "fencepost_" not in text, what


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_takes_what_the_session_gives(name: str) -> None:
    """A text that takes another parameter than is bound would be noticed by a server only."""
    say, dialect = RelayStatements(tables(), name), dialect_of(name)
    taken = {what: set(said.compile(dialect=dialect).params) for what, said in say.all().items()}
    pairs = {f"{kind}_{n}" for n in range(AT_ONCE) for kind in ("position", "id")}
    assert taken == {
        "pending": {"after_", "most_"},
        "pending_in_slots": {"after_", "first_", "last_", "most_"},
        "below": {"position_", "most_"},
        "below_in_slots": {"position_", "first_", "last_", "most_"},
        "settle": pairs,
        "held": {f"{kind}_{n}" for n in range(AT_ONCE) for kind in ("first", "last")},
        "in_doubt": {"token_", "position_", "id_"},
        "failed": {"text_", "position_", "id_"},
        "lock": {"position_", "id_"},
        "forget": {"id_"},
        "park": {"text_", "position_", "id_"},
        "remove": {"position_", "id_"},
        "due": {"most_"},
        "release": {f"position_{n}" for n in range(AT_ONCE)},
        "next_due": set(),
        "backlog": set(),
    }
