"""Messages in a session's unit of work: flush, roll-back and savepoints do what they do to mapped objects (C12)."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, PendingRollbackError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from fencepost.errors import ConfigurationError, NoTransaction, VersionConflict
from fencepost.outbox import AsyncOutbox, NewMessage, Outbox
from fencepost.sql.outbox import Versions
from tests.drivers.ways import Place


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "business"

    id: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[int | None]


@pytest.fixture
def engine(place: Place) -> sa.Engine:
    return place.engine().execution_options(schema_translate_map={None: place.schema})


@pytest.fixture
def session(engine: sa.Engine) -> Iterator[Session]:
    with Session(engine) as session:
        yield session


@pytest.fixture
def outbox(place: Place) -> Outbox:
    return Outbox(**place.names)


def payloads(place: Place) -> list[bytes]:
    return [row["payload"] for row in place.rows()]


def orders(place: Place) -> list[int]:
    with place.engine().connect() as connection:
        return list(connection.scalars(sa.text(f"SELECT id FROM {place.business} ORDER BY id")))


def waiting(session: Session, place: Place) -> list[bytes]:
    """What this transaction sees in the outbox, without flushing."""
    outbox = place.tables.outbox
    return list(session.connection().scalars(sa.select(outbox.c.payload).order_by(outbox.c.seq)))


def test_messages_alone_are_written_by_a_flush(session: Session, outbox: Outbox, place: Place) -> None:
    message = outbox.add(session, "orders", 1, key="1")
    assert message.version is None
    assert waiting(session, place) == []
    session.flush()
    assert waiting(session, place) == [b"1"]
    session.flush()
    assert waiting(session, place) == [b"1"]
    session.commit()
    assert payloads(place) == [b"1"]


def test_a_commit_flushes(session: Session, outbox: Outbox, place: Place) -> None:
    outbox.add(session, "orders", 1, key="1")
    session.commit()
    outbox.add(session, "orders", 2, key="1")
    session.commit()
    assert [(row["payload"], row["version"]) for row in place.rows()] == [(b"1", 1), (b"2", 2)]


def test_a_query_flushes(session: Session, outbox: Outbox, place: Place) -> None:
    outbox.add(session, "orders", 1, key="1")
    session.execute(sa.select(Order)).all()
    assert waiting(session, place) == [b"1"]
    with session.no_autoflush:
        outbox.add(session, "orders", 2, key="1")
        session.execute(sa.select(Order)).all()
        assert waiting(session, place) == [b"1"]


def test_a_rollback_before_the_flush_forgets(session: Session, outbox: Outbox, place: Place) -> None:
    session.add(Order(id=1))
    outbox.add(session, "orders", 1, key="1")
    session.rollback()
    session.add(Order(id=2))
    session.commit()
    assert (orders(place), payloads(place), place.versions()) == ([2], [], {})


def test_a_rollback_after_the_flush_forgets(session: Session, outbox: Outbox, place: Place) -> None:
    outbox.add(session, "orders", 1, key="1")
    session.flush()
    session.rollback()
    session.commit()
    assert (payloads(place), place.versions()) == ([], {})


def test_a_session_that_is_closed_without_commit_forgets(engine: sa.Engine, outbox: Outbox, place: Place) -> None:
    with Session(engine) as session:
        outbox.add(session, "orders", 1, key="1")
        session.flush()
        outbox.add(session, "orders", 2, key="1")
    assert payloads(place) == []


@pytest.mark.parametrize("flushed", [True, False])
def test_a_savepoint_that_is_rolled_back(session: Session, outbox: Outbox, place: Place, flushed: bool) -> None:
    """C12"""
    session.add(Order(id=1))
    outbox.add(session, "orders", "before", key="1")
    nested = session.begin_nested()
    session.add(Order(id=2))
    outbox.add(session, "orders", "inside", key="1")
    outbox.add(session, "orders", "inside, other key", key="2")
    if flushed:
        session.flush()
    nested.rollback()
    outbox.add(session, "orders", "after", key="1")
    session.commit()
    assert orders(place) == [1]
    assert [(row["payload"], row["version"]) for row in place.rows()] == [(b'"before"', 1), (b'"after"', 2)]
    assert place.versions() == {("orders", "1"): 2}


def test_a_savepoint_that_is_kept(session: Session, outbox: Outbox, place: Place) -> None:
    """C12"""
    with session.begin_nested():
        outbox.add(session, "orders", 1, key="1")
        inner = session.begin_nested()
        outbox.add(session, "orders", 2, key="1")
        inner.rollback()
    with session.begin_nested():
        outbox.add(session, "orders", 3, key="1")
    session.commit()
    assert [(row["payload"], row["version"]) for row in place.rows()] == [(b"1", 1), (b"3", 2)]


def test_a_business_error_takes_the_messages_along(session: Session, outbox: Outbox, place: Place) -> None:
    session.add(Order(id=1))
    session.commit()
    outbox.add(session, "orders", "lost with its order", key="1")
    session.add(Order(id=1))
    with pytest.raises(IntegrityError):
        session.flush()
    session.rollback()
    session.add(Order(id=3))
    outbox.add(session, "orders", "kept", key="1")
    session.commit()
    assert (orders(place), payloads(place)) == ([1, 3], [b'"kept"'])


@pytest.mark.parametrize("business", [True, False])
def test_a_message_error_takes_the_business_along(
    session: Session, outbox: Outbox, place: Place, business: bool
) -> None:
    """The flush fails: what was flushed before cannot be committed either, even where the error is swallowed."""
    outbox.add(session, "orders", 0, key="1", version=5)
    session.commit()
    session.add(Order(id=1))
    session.flush()
    outbox.add(session, "orders", 1, key="1", version=5)
    if business:
        session.add(Order(id=2))
    with pytest.raises(VersionConflict):
        session.flush()
    with pytest.raises(PendingRollbackError):
        session.commit()
    session.rollback()
    session.commit()
    assert (orders(place), payloads(place)) == ([], [b"0"])


def test_business_rows_are_locked_before_entities_and_entities_in_order(
    session: Session, engine: sa.Engine, outbox: Outbox, place: Place
) -> None:
    said: list[tuple[str, Any]] = []

    def listen(connection: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        said.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", listen)
    try:
        for key in ("b", "a", "c", "a"):
            outbox.add(session, "t", key, key=key)
        session.add(Order(id=1))
        session.commit()
    finally:
        event.remove(engine, "before_cursor_execute", listen)

    assert "business" in said[0][0]
    assert all("business" not in statement for statement, _ in said[1:])
    if place.scheme == "postgresql":  # one statement, entities sorted
        (batch,) = said[1:]
        assert batch[1]["entity_key"] == ["a", "b", "c"]
    if place.scheme == "mysql":  # entities first, sorted
        assert [values["key_0"] for _, values in said[1:7:2]] == ["a", "b", "c"]
        assert ["entity" in statement for statement, _ in said[1:]] == [True] * 6 + [False]
    assert payloads(place) == [b'"b"', b'"a"', b'"c"', b'"a"']


def test_several_outboxes_in_one_session(session: Session, engine: sa.Engine, place: Place) -> None:
    other = Place(place.url, place.schema, "other_")
    other.tables.metadata.drop_all(place.engine())
    other.tables.metadata.create_all(place.engine())
    versions: Versions = "counter" if place.scheme == "mysql" else "position"
    first, second = Outbox(**place.names), Outbox(**other.names, versions=versions)
    for n in range(3):
        first.add(session, "t", n, key="1")
        second.add(session, "t", 10 + n, key="1")
    session.commit()
    assert (payloads(place), payloads(other)) == ([b"0", b"1", b"2"], [b"10", b"11", b"12"])
    counted = {("t", "1"): 3}
    assert (place.versions(), other.versions()) == (counted, counted if versions == "counter" else {})
    other.tables.metadata.drop_all(place.engine())


def test_a_message_that_a_listener_adds_is_written_once(session: Session, outbox: Outbox, place: Place) -> None:
    """Events of the domain are often collected in before_flush, which may run after everybody else's."""

    def before(session: Session, *_: Any) -> None:
        for order in [item for item in session.new if isinstance(item, Order)]:
            outbox.add(session, "before", order.id, key=str(order.id))

    def after(topic: str) -> Callable[..., None]:
        def listen(session: Session, *_: Any) -> None:
            for order in [item for item in session.new if isinstance(item, Order)]:
                outbox.add(session, topic, order.id, key=str(order.id))

        return listen

    event.listen(session, "before_flush", before)
    event.listen(session, "after_flush", after("after.last"))
    first = after("after.first")
    event.listen(Session, "after_flush", first, insert=True)
    try:
        session.add(Order(id=1))
        session.commit()
    finally:
        event.remove(Session, "after_flush", first)
    assert sorted((row["topic"], row["payload"]) for row in place.rows()) == [
        ("after.first", b"1"),
        ("after.last", b"1"),
        ("before", b"1"),
    ]


def test_a_message_is_fixed_when_it_is_added(session: Session, outbox: Outbox, place: Place) -> None:
    payload, headers, raw = {"n": 1}, {"h": "1"}, bytearray(b"1")
    outbox.add(session, "t", payload, headers=headers)
    outbox.add(session, "t", raw)
    payload["n"], headers["h"], raw[0] = 2, "2", 0
    session.commit()
    assert [(row["payload"], row["headers"]) for row in place.rows()] == [(b'{"n":1}', '{"h":"1"}'), (b"1", None)]


def test_nothing_stays_in_the_session(session: Session, outbox: Outbox, place: Place) -> None:
    outbox.add_all(session, [NewMessage("t", n) for n in range(100)])
    assert len(session.new) == 100
    session.flush()
    gc.collect()
    assert (list(session.new), list(session.identity_map.values())) == ([], [])
    session.commit()
    assert len(place.rows()) == 100


def test_expunging_everything_drops_what_waits(session: Session, outbox: Outbox, place: Place) -> None:
    outbox.add(session, "t", 1)
    session.expunge_all()
    session.commit()
    assert payloads(place) == []


def test_subclasses_and_scoped_sessions(engine: sa.Engine, outbox: Outbox, place: Place) -> None:
    class Own(Session):
        pass

    with Own(engine) as session:
        outbox.add(session, "t", 1)
        session.commit()
    scoped = scoped_session(sessionmaker(engine, class_=Own))
    outbox.add(scoped, "t", 2)
    scoped.commit()
    scoped.remove()
    assert payloads(place) == [b"1", b"2"]


def test_a_session_on_a_connection(engine: sa.Engine, outbox: Outbox, place: Place) -> None:
    with engine.connect() as connection, connection.begin() as transaction:
        connection.execute(sa.insert(Order).values(id=1))  # SQLite's driver begins here, not at a savepoint
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            outbox.add(session, "t", 1)
            session.commit()
        transaction.rollback()
    assert payloads(place) == []


def test_a_session_without_a_bind_is_refused(place: Place, outbox: Outbox) -> None:
    with Session(binds={Order: place.engine()}) as session:
        with pytest.raises(ConfigurationError, match=r"which database.*give it a bind"):
            outbox.add(session, "t", 1)
        outbox.add(session.connection(bind_arguments={"mapper": Order}), "t", 1)
        session.commit()
    assert payloads(place) == [b"1"]


def test_a_session_that_routes_writes_by_itself(place: Place, outbox: Outbox) -> None:
    class Routing(Session):
        def get_bind(self, mapper: Any = None, **rest: Any) -> sa.Engine:
            return place.engine()

    with Routing() as session:
        outbox.add(session, "t", 1)
        session.commit()
    assert payloads(place) == [b"1"]


@pytest.mark.parametrize("how", ["engine", "option", "connection"])
def test_a_session_that_commits_by_itself_is_refused(place: Place, outbox: Outbox, how: str) -> None:
    if how == "engine":
        engine = sa.create_engine(place.engine().url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    elif how == "option":
        engine = place.engine().execution_options(isolation_level="AUTOCOMMIT")
    else:
        engine = place.engine()
    with Session(engine) as session:
        if how == "connection":
            session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        with pytest.raises(NoTransaction, match="AUTOCOMMIT"):  # noqa: PT012
            outbox.add(session, "t", 1)
            session.flush()
    assert payloads(place) == []


# -------------------------------------------------------------------------------------------------------------- awaited


async def test_the_same_awaited(place: Place) -> None:
    outbox = AsyncOutbox(**place.names)
    engine = place.awaited().execution_options(schema_translate_map={None: place.schema})
    async with AsyncSession(engine) as session:
        session.add(Order(id=1))
        await outbox.add(session, "orders", "before", key="1")
        nested = await session.begin_nested()
        session.add(Order(id=2))
        await outbox.add(session, "orders", "inside", key="1")
        await session.flush()
        await nested.rollback()
        await outbox.add(session, "orders", "after", key="1")
        await session.execute(sa.select(Order))
        await session.commit()
        await outbox.add(session, "orders", "too late", key="1")
        await session.rollback()
        with pytest.raises(VersionConflict):  # noqa: PT012
            await outbox.add(session, "orders", "old", key="1", version=2)
            await session.commit()
    assert orders(place) == [1]
    assert [(row["payload"], row["version"]) for row in place.rows()] == [(b'"before"', 1), (b'"after"', 2)]


async def test_scoped_and_awaited(place: Place) -> None:
    maker = async_sessionmaker(place.awaited())
    scoped = async_scoped_session(maker, scopefunc=lambda: 1)
    await AsyncOutbox(**place.names).add(scoped, "t", 1)
    await scoped.commit()
    await scoped.remove()
    assert payloads(place) == [b"1"]


async def test_inside_run_sync(place: Place) -> None:
    outbox = Outbox(**place.names)
    async with AsyncSession(place.awaited()) as session:
        await session.run_sync(lambda blocking: outbox.add(blocking, "t", 1))
        await session.commit()
    assert payloads(place) == [b"1"]
