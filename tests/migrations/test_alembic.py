"""Alembic's migrations make the same tables as `fencepost schema apply`, and autogenerate finds nothing to add."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations

from fencepost import Outbox, alembic
from fencepost.errors import ConfigurationError, FixError
from fencepost.sql import revisions
from fencepost.sql.schema import all_tables
from fencepost.sql.tables import tables
from tests.databases.mariadb_kit import ask
from tests.migrations.conftest import Applied, Empty

PLAIN: dict[str, Any] = {"mysql": {"ssl_disabled": True}}


@contextmanager
def migrating(empty: Empty, **options: Any) -> Iterator[Operations]:
    """What a migration's ``op`` is."""
    engine = sa.create_engine(empty.sqlalchemy_url, poolclass=sa.NullPool, connect_args=PLAIN.get(empty.name, {}))
    with engine.begin() as connection:
        yield Operations(MigrationContext.configure(connection, opts=options))


def difference(empty: Empty, metadata: sa.MetaData, **options: Any) -> list[Any]:
    """What autogenerate would write."""
    with migrating(empty, target_metadata=metadata, **options) as op:
        return list(compare_metadata(op.get_context(), metadata))


def test_a_migration_makes_what_schema_apply_makes(empty: Empty, applied: Applied) -> None:
    expected = applied()
    with migrating(empty) as op:
        alembic.create_tables(op, revision=1)
    assert empty.described() == expected
    assert empty.apply() == []


def test_what_metadata_alone_makes_is_noticed(postgresql_empty: Empty) -> None:
    """The comparison sees the settings of the storage, and whatever else is not the same."""
    postgresql_empty.apply()
    expected = postgresql_empty.described()
    with migrating(postgresql_empty) as op:
        op.execute("ALTER TABLE fencepost_outbox RESET (vacuum_truncate)")
    assert postgresql_empty.described() != expected
    with migrating(postgresql_empty) as op:
        op.execute("ALTER TABLE fencepost_outbox SET (vacuum_truncate = false)")
        op.execute("ALTER TABLE fencepost_outbox RESET (toast.autovacuum_vacuum_threshold)")
    assert postgresql_empty.described() != expected


def test_autogenerate_finds_nothing_to_add(empty: Empty) -> None:
    prefix = "Tell_"
    with migrating(empty) as op:
        alembic.create_tables(op, revision=1, prefix=prefix)
    metadata = tables(prefix=prefix, partial_indexes=empty.name != "mysql").metadata
    assert (
        difference(empty, metadata, compare_server_default=empty.name == "postgresql") == []
    )  # SQLite has no identity
    sa.Table("orders", metadata, sa.Column("id", sa.Integer, primary_key=True))
    metadata.tables[f"{prefix}outbox"].append_column(sa.Column("more", sa.Integer))
    assert [change[0] for change in difference(empty, metadata)] == ["add_table", "add_column"]


def test_a_schema_of_its_own(postgresql_empty: Empty) -> None:
    """A12. Names that need quotes; the schema is made where it is missing, and left alone where it is there."""
    names: Any = {"schema": "my schema: 100%", "prefix": "x_"}
    postgresql_empty.apply(**names)
    expected = postgresql_empty.described(**names)
    with migrating(postgresql_empty) as op:
        op.execute(sa.text('DROP SCHEMA "my schema\\: 100%" CASCADE'))
        alembic.create_tables(op, revision=1, **names)
    assert postgresql_empty.described(**names) == expected
    with migrating(postgresql_empty) as op:
        alembic.drop_tables(op, **names)
    assert postgresql_empty.described(**names) == []
    with migrating(postgresql_empty) as op:
        alembic.create_tables(op, revision=1, **names)
    assert postgresql_empty.described(**names) == expected
    metadata = tables(schema=names["schema"], prefix=names["prefix"]).metadata
    assert difference(postgresql_empty, metadata, include_schemas=True, include_name=only(names["schema"])) == []


def only(schema: str) -> Any:
    return lambda name, kind, _: kind != "schema" or name == schema


def test_who_may_not_create_a_schema_uses_one_that_is_there(postgresql_empty: Empty, fresh_name: str) -> None:
    user = f"u_{fresh_name.replace('-', '_')}"
    with migrating(postgresql_empty) as op:
        op.execute(f"CREATE USER {user}")
        op.execute(f"CREATE SCHEMA theirs AUTHORIZATION {user}")
    try:
        with migrating(postgresql_empty) as op:
            op.execute(f"SET LOCAL ROLE {user}")
            alembic.create_tables(op, revision=1, schema="theirs")
        assert len(postgresql_empty.described("theirs")) > 6
    finally:
        with migrating(postgresql_empty) as op:
            op.execute(f"DROP OWNED BY {user}")
            op.execute(f"DROP USER {user}")


def test_a_downgrade_drops_them_all(empty: Empty) -> None:
    with migrating(empty) as op:
        alembic.create_tables(op, revision=1)
        alembic.drop_tables(op)
    assert [line for line in empty.described() if "fencepost" in line] == []
    with migrating(empty) as op:
        alembic.drop_tables(op)


def test_a_downgrade_loses_no_message(empty: Empty) -> None:
    with migrating(empty) as op:
        alembic.create_tables(op, revision=1)
        Outbox().add(op.get_bind(), "orders", 1, key="1")
    before = empty.described()
    with pytest.raises(FixError, match=r"fencepost_outbox has 1 message waiting.*lost with it"), migrating(empty) as op:
        alembic.drop_tables(op)
    assert empty.described() == before
    with migrating(empty) as op:
        op.execute(
            f"INSERT INTO fencepost_parked SELECT id, topic, {key(op)}, version, type, slot, payload, content_type,"
            " headers, occurred_at, available_at, attempts, seq, occurred_at, 'no' FROM fencepost_outbox"
        )
        op.execute("DELETE FROM fencepost_outbox")
    with pytest.raises(FixError, match="fencepost_parked has 1 message parked"), migrating(empty) as op:
        alembic.drop_tables(op)


def key(op: Operations) -> str:
    """A column whose name is a word of MariaDB's."""
    return str(op.get_context().dialect.identifier_preparer.quote("key"))


@pytest.mark.parametrize("name", ["postgresql", "mariadb", "mysql", "sqlite"])
def test_offline(name: str) -> None:
    """As `alembic upgrade --sql` prints it; nothing is connected to."""
    printed = io.StringIO()
    options = {"as_sql": True, "output_buffer": printed}
    op = Operations(MigrationContext.configure(dialect_name=name, opts=options))
    schema = None if name == "sqlite" else "a schema"
    alembic.create_tables(op, revision=1, schema=schema)
    alembic.drop_tables(op, schema=schema)
    text = printed.getvalue()
    assert text.count("CREATE TABLE IF NOT EXISTS") == text.count("DROP TABLE IF EXISTS") == 5
    assert text.count("ALTER TABLE") == (2 if name == "postgresql" else 0)
    assert text.count('CREATE SCHEMA IF NOT EXISTS "a schema"') == (name == "postgresql")
    assert text.count("CREATE SCHEMA IF NOT EXISTS `a schema`") == (name in {"mariadb", "mysql"})


def test_a_later_revision_comes_as_a_pair(empty: Empty, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted revision 2: the old program works between its halves, and revision 1 stays what it was."""
    added = revisions.Revision(
        number=2,
        what="a note instead of the last error",
        before=lambda t, _: [f"ALTER TABLE {t.outbox.name} ADD COLUMN note TEXT"],
        after=lambda t, _: [f"ALTER TABLE {t.outbox.name} DROP COLUMN last_error"],
    )
    monkeypatch.setattr(revisions, "REVISIONS", (*revisions.REVISIONS, added))
    with migrating(empty) as op:
        alembic.create_tables(op, revision=1)
        assert columns(op) >= {"last_error"}
        assert "note" not in columns(op)
        alembic.before(op, 2)
        assert columns(op) >= {"last_error", "note"}
        Outbox().add(op.get_bind(), "orders", 1, key="1")
        alembic.after(op, 2)
        assert "last_error" not in columns(op)
    path = empty.described()
    with migrating(empty) as op:
        op.execute("DELETE FROM fencepost_outbox")
        alembic.drop_tables(op)
        alembic.create_tables(op, revision=2)
    if empty.name == "postgresql":  # SQLite keeps the words of each change
        assert empty.described() == path


def columns(op: Operations) -> set[str]:
    return {column["name"] for column in sa.inspect(op.get_bind()).get_columns("fencepost_outbox")}


def test_settled_rows_that_stay(empty: Empty) -> None:
    """From the beginning, or from some day on."""
    with migrating(empty) as op:
        alembic.create_tables(op, revision=1)
        alembic.keep_settled(op)
    assert empty.apply(settle="mark") == []
    later = empty.described()
    with migrating(empty) as op:
        Outbox().add(op.get_bind(), "orders", 1)
        op.execute("UPDATE fencepost_outbox SET state = 3")
        alembic.drop_tables(op)  # what is settled is no loss
        alembic.create_tables(op, revision=1, settle="mark")
    assert empty.apply(settle="mark") == []
    assert any("settled_at" in line for line in empty.described())
    if empty.name == "postgresql":  # SQLite keeps the words of each change
        assert empty.described() == later


def test_what_died_half_way_is_run_again(mariadb_empty: Empty) -> None:
    """MariaDB keeps what a migration has done until it died."""
    with migrating(mariadb_empty) as op:
        alembic.create_tables(op, revision=1)
        op.execute("DROP TABLE fencepost_lease")
        alembic.create_tables(op, revision=1)
        alembic.keep_settled(op)
    whole = mariadb_empty.described()
    for half in ("DROP INDEX fencepost_outbox_settled", "DROP INDEX fencepost_outbox_settled, DROP COLUMN settled_at"):
        with migrating(mariadb_empty) as op:
            op.execute(f"ALTER TABLE fencepost_outbox {half}")
            assert mariadb_empty.described() != whole
            alembic.keep_settled(op)
        assert mariadb_empty.described() == whole
    with migrating(mariadb_empty) as op:
        op.execute("DROP TABLE fencepost_entity, fencepost_lane, fencepost_outbox")
        alembic.drop_tables(op)
    assert mariadb_empty.described() == []


def test_a_schema_is_a_database_on_mariadb(mariadb_empty: Empty, fresh_name: str) -> None:
    """A12. It is made where it is missing."""
    names: Any = {"schema": f"{fresh_name}: 100%", "prefix": "x_"}
    with migrating(mariadb_empty) as op:
        alembic.create_tables(op, revision=1, **names)
    try:
        assert mariadb_empty.apply(**names) == []
        assert len(mariadb_empty.described(**names)) > 6
        with migrating(mariadb_empty) as op:
            alembic.create_tables(op, revision=1, **names)
            alembic.keep_settled(op, **names)
            alembic.drop_tables(op, **names)
        assert mariadb_empty.described(**names) == mariadb_empty.described() == []
    finally:
        ask(mariadb_empty.url, f"DROP DATABASE `{names['schema']}`")


def test_a_revision_that_is_not_known(empty: Empty) -> None:
    for work in (alembic.before, alembic.after):
        with pytest.raises(ConfigurationError, match="no revision 99"), migrating(empty) as op:
            work(op, 99)
    with pytest.raises(ConfigurationError, match="install a later release"), migrating(empty) as op:
        alembic.create_tables(op, revision=99)
    assert all(table.name not in str(empty.described()) for table in all_tables(tables()))


@pytest.fixture
def postgresql_empty(fresh_database: str) -> Empty:
    """An empty PostgreSQL database."""
    return Empty(fresh_database)


@pytest.fixture
def mariadb_empty(fresh_mariadb: str) -> Empty:
    """An empty MariaDB database."""
    return Empty(fresh_mariadb)
