"""How positions are passed over in Oracle, SQL Server and CockroachDB, so that nobody is handed them any more.

A sequence is asked for numbers until they are past: to set it could take back what others draw at the same moment. SQL
Server's identity moves past a row that is written with its own number, and does not come back with it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from fencepost.sql.schema_other import sequence_of
from fencepost.sql.tables import Tables

DRAW_MAX = 1_000
"""How many numbers are drawn at once."""

_COUNT = sa.bindparam("count_", type_=sa.Integer)


def draw(t: Tables, dialect: Dialect) -> Any:
    """(count_): draws so many positions, a row each. None where they are not drawn from a sequence."""
    preparer = dialect.identifier_preparer
    if dialect.name == "oracle":
        names = (t.outbox.schema, sequence_of(t.outbox))
        sequence = ".".join(preparer.quote(name) for name in names if name)
        return sa.text(f"SELECT {sequence}.NEXTVAL FROM dual CONNECT BY LEVEL <= :count_").bindparams(_COUNT)  # noqa: S608
    if dialect.name == "cockroachdb":
        numbers = sa.func.generate_series(sa.literal_column("1"), _COUNT).table_valued("value", name="numbers")
        name = preparer.format_table(t.outbox).replace("'", "''")
        found = sa.func.pg_get_serial_sequence(sa.literal_column(f"'{name}'"), sa.literal_column("'seq'"))
        return sa.select(sa.func.nextval(found)).select_from(numbers)
    return None


def last_drawn(t: Tables, dialect: Dialect) -> Any:
    """(): SQL Server's last position, None before the first one."""
    name = dialect.identifier_preparer.format_table(t.outbox).replace("'", "''")
    return sa.text(
        f"SELECT CAST(last_value AS BIGINT) FROM sys.identity_columns WHERE object_id = OBJECT_ID(N'{name}')"  # noqa: S608
    )


def at(t: Tables) -> Any:
    """(position_): a row at this position, which is to be rolled back."""
    nobody: dict[str, Any] = {"id": "", "topic": "", "type": "", "slot": 0, "content_type": ""}
    values = {name: sa.literal(value, t.outbox.c[name].type) for name, value in nobody.items()}
    position = sa.bindparam("position_", type_=sa.BigInteger)
    moment: Any = sa.literal_column("SYSUTCDATETIME()")
    return sa.insert(t.outbox).values(seq=position, occurred_at=moment, **values).inline()
