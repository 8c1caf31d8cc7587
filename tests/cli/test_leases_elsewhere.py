"""`fencepost schema` where `[lease] url` names another database: its tables are made there too."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.cli.process import configuration, run, run_at_once

LEASE = '\n[lease]\nurl = "sqlite:///leases.db"'


def test_schema_of_leases_in_another_database(tmp_path: Path) -> None:
    configuration(tmp_path, database="memory://orders", broker="memory://orders", more=LEASE)
    printed, as_json = run_at_once(("schema", "print"), ("schema", "print", "--json"), cwd=tmp_path)
    nothing = "-- Nothing to do: memory needs no tables.\n"
    assert printed.stdout.startswith(f"{nothing}-- In the database of [lease] url:\n"), printed.stderr
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(printed.stdout)
    assert len(json.loads(as_json.stdout)["lease_statements"]) > 4
    assert not (tmp_path / "leases.db").exists(), "printing connects to nothing"
    applied = run("schema", "apply", cwd=tmp_path)
    assert applied.stdout.startswith("created in the database of [lease] url fencepost_entity, "), applied.stderr
    again = run("schema", "apply", "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == {"created": [], "lease_created": []}
