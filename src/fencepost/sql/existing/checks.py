"""What is wrong with a table that somebody else has made: refused, or warned about, each time with the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations

from sqlalchemy.engine import Dialect

from fencepost.errors import ConfigurationError, FixError, SchemaMissing, raise_together
from fencepost.existing import STATES, ExistingTable
from fencepost.sql.existing.columns import Column, Described, Kind
from fencepost.sql.tables import MARIADB
from fencepost.words import suggestion

_TEXTS: tuple[Kind, ...] = ("text", "uuid", "integer", "other")
_ALLOWED: dict[str, tuple[Kind, ...]] = {
    "id": _TEXTS,
    "key": _TEXTS,
    "payload": ("binary", "json", "text"),
    "version": ("integer",),
    "headers": ("json", "text"),
    "occurred_at": ("time",),
    "state": ("text", "integer", "other"),
    "settled_at": ("time",),
    "attempts": ("integer",),
    "last_error": ("text",),
    "topic": _TEXTS,
    "type": _TEXTS,
}
_UUID_CHARACTERS = 36

_ADD_POSITION = {
    "postgresql": "ADD COLUMN position bigint GENERATED ALWAYS AS IDENTITY UNIQUE",
    "mysql": "ADD COLUMN position BIGINT NOT NULL AUTO_INCREMENT UNIQUE",
    "mariadb": "ADD COLUMN position BIGINT NOT NULL AUTO_INCREMENT UNIQUE",
}


class Checked:
    """One table, against what a configuration says of it. ``place`` names the database in errors."""

    def __init__(self, place: str, table: ExistingTable, found: Described, dialect: Dialect) -> None:
        self._place, self._e, self._found, self._dialect = place, table, found, dialect

    def must_do(self) -> None:
        """Raise FixError for all without which nothing could be relayed: first the columns, then what they mean."""
        if not self._found.columns:
            raise SchemaMissing(f"{self._place} has no table {self._e.table}", remedy="correct [existing] table")
        self._raise_all([partial(self._must_be, name, key) for name, key in self._e.columns()])
        parkable = [] if self._e.parked is not None else [self._must_be_parkable]
        self._raise_all([self._must_order, self._must_have_values, self._must_tell_states, *parkable])

    def warnings(self) -> Sequence[str]:
        """What works, but badly: one line each."""
        return [*self._slow(), *self._states_of_others()]

    def _raise_all(self, checks: Iterable[Callable[[], None]]) -> None:
        errors: list[FixError] = []
        for check in checks:
            try:
                check()
            except FixError as error:
                errors.append(error)
        raise_together(errors, self._place)

    # -- columns -------------------------------------------------------------------------------------------------------

    def _must_be(self, name: str, key: str) -> None:
        column = self._found.columns.get(name)
        if column is None:
            raise ConfigurationError(
                f"{self._place}: the table {self._e.table} has no column {name!r}, which [existing] {key} names",
                remedy=suggestion(name, self._found.columns),
            )
        allowed = _ALLOWED.get(key)
        if allowed is not None and not self._is_one_of(column, allowed):
            raise ConfigurationError(
                f"{self._place}: the column {self._e.table}.{name} is {column.declared or column.kind}, "
                f"which cannot be the {key}",
                remedy=f"[existing] {key} needs a column of this kind: {', '.join(allowed)}",
            )

    def _is_one_of(self, column: Column, allowed: Sequence[Kind]) -> bool:
        loose = self._dialect.name == "sqlite"  # whose declared types are no more than hints
        return column.kind in allowed or (loose and column.kind in ("text", "other", "integer"))

    def _must_order(self) -> None:
        column = self._found.columns[self._e.position]
        if column.kind == "time" and self._dialect.name == "postgresql":
            if self._found.columns[self._e.id].kind != "uuid":
                raise self._no_order("a time orders rows only where their id is a uuid, which tells those of one time")
        elif column.kind != "integer":
            raise self._no_order(f"the column {column.name} is {column.declared or column.kind}, which gives no order")
        if column.nullable:
            raise ConfigurationError(
                f"{self._place}: {self._e.table}.{column.name} may be NULL, and such a row would never be read",
                remedy=f"make it NOT NULL in {self._e.table}",
            )

    def _no_order(self, why: str) -> ConfigurationError:
        if self._dialect.name == "sqlite":
            remedy = 'write position = "rowid"'
        else:
            added = _ADD_POSITION[self._dialect.name]
            remedy = (
                f'ALTER TABLE {self._e.table} {added}, and write position = "position": writers need not know of it'
            )
        return ConfigurationError(f"{self._place}: the table {self._e.table} has no order: {why}", remedy=remedy)

    def _must_have_values(self) -> None:
        e = self._e
        if e.state is None or self._found.columns[e.state].kind != "integer":
            return
        for key in ("pending", "in_doubt", "settled", "parked"):
            value = getattr(e, key)
            if value is not None and not value.lstrip("-").isdigit():
                raise ConfigurationError(
                    f"{self._place}: [existing] {key} is {value!r}, and {e.table}.{e.state} holds whole numbers",
                    remedy=f"write the number that means {key}",
                )

    # -- states that the database takes for the same -------------------------------------------------------------------

    def _must_tell_states(self) -> None:
        """A settled row that still counts as waiting would be published for ever."""
        e = self._e
        named = [(key, value) for key in STATES if (value := getattr(e, key)) is not None]
        for (key, value), (other_key, other) in combinations(named, 2):
            if (value, other) in self._found.alike:
                raise ConfigurationError(
                    f"{self._place}: {e.table}.{e.state} takes {value!r} and {other!r} for the same, which are"
                    f" [existing] {key} and {other_key}",
                    remedy=f"choose values that differ in more than their case; or {self._exact()}",
                )

    def _states_of_others(self) -> Iterator[str]:
        e = self._e
        if e.state is None or self._found.columns[e.state].declared.lower().startswith("enum"):
            return  # which has one way only to write a state
        for value in e.waiting:
            if (value, value.swapcase()) in self._found.alike:
                yield (
                    f"{self._place}: {e.table}.{e.state} takes texts that differ in case for the same, so that rows in"
                    f" {value.swapcase()!r} are published as those in {value!r}: {self._exact()}"
                )

    def _exact(self) -> str:
        e = self._e
        column = self._found.columns[str(e.state)]
        if self._dialect.name in MARIADB:
            fixed = "" if column.nullable else " NOT NULL"
            exact = f"{column.declared} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin{fixed}"
            return f"ALTER TABLE {e.table} MODIFY {e.state} {exact}"
        if self._dialect.name == "postgresql":
            return f'ALTER TABLE {e.table} ALTER {e.state} TYPE text COLLATE "C"'
        return f"declare {e.state} without COLLATE NOCASE"

    def _must_be_parkable(self) -> None:
        """The table of parked messages keeps UUIDs."""
        column = self._found.columns[self._e.id]
        if self._dialect.name == "sqlite" or column.kind in ("uuid", "text"):
            return
        raise FixError(
            f"{self._place}: the column {self._e.table}.{self._e.id} is {column.declared}: messages that cannot be "
            "published could not be set aside, because parked messages have a UUID",
            remedy="name a state for them: [existing] state, pending and parked",
        )

    # -- speed ---------------------------------------------------------------------------------------------------------

    def _slow(self) -> Iterator[str]:
        e = self._e
        by_time = self._found.columns[e.position].kind == "time"
        wanted = (e.position, e.id) if by_time else (e.position,)
        if e.position.lower() != "rowid" and not self._begins(wanted, unique=not by_time):
            kind = "INDEX" if by_time else "UNIQUE INDEX"
            yield self._say(
                f"no {kind.lower()} of {', '.join(wanted)}, so that each read sorts the whole table", kind, wanted
            )
        if by_time and not self._begins((e.id,), unique=True):
            yield self._say(
                f"no unique index of {e.id}, so that each settle reads the whole table", "UNIQUE INDEX", (e.id,)
            )
        if e.state is not None and not any(
            e.state in (*i.columns[:1], *i.where.split()) or e.state in i.where for i in self._found.indexes
        ):
            yield self._states_without_index(e.state, wanted)

    def _begins(self, columns: tuple[str, ...], *, unique: bool) -> bool:
        return any(
            index.columns[: len(columns)] == columns
            and not index.where
            and (not unique or (index.unique and index.columns == columns))
            for index in self._found.indexes
        )

    def _say(self, what: str, kind: str, columns: tuple[str, ...]) -> str:
        e = self._e
        name = f"{e.table}_{'_'.join(columns)}"
        return f"{self._place}: {e.table} has {what}: CREATE {kind} {name} ON {e.table} ({', '.join(columns)})"

    def _states_without_index(self, state: str, wanted: tuple[str, ...]) -> str:
        e = self._e
        listed = ", ".join(value if value.lstrip("-").isdigit() else f"'{value}'" for value in e.waiting)
        if self._dialect.name in MARIADB:
            made = f"CREATE INDEX {e.table}_waiting ON {e.table} ({state}, {', '.join(wanted)})"
        else:
            where = f"WHERE {state} IN ({listed})"
            made = f"CREATE INDEX {e.table}_waiting ON {e.table} ({', '.join(wanted)}) {where}"
        return (
            f"{self._place}: {e.table} has no index of the rows that wait, so that each read passes the others: {made}"
        )


def limits(table: ExistingTable) -> Sequence[str]:
    """What an existing table does not give, for people who are used to Fencepost's own: one line each."""
    found = [
        "no lock of the entity: two transactions that write one key at the same time may commit in the other order than"
        " their positions, and are then published in the order of the positions",
        "nobody wakes the relay: a message waits up to a second for the next look",
        "no delayed messages",
        "a database that fell back may hand positions out again: ids tell the messages apart",
    ]
    if table.version is None:
        found.append("no versions: a consumer can drop repeats by id, but not tell an older state from a newer one")
    if table.attempts is None:
        found.append("failed tries are counted in the memory of the relay, and begin again with each restart")
    if table.in_doubt is None:
        found.append("no mark for what is being sent: an exactly-once or deduplicating broker is needed")
    return found
