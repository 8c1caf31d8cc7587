"""docs/add-a-database.md, followed literally: its files, its rules, its relay on a real NATS, a backup put back."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.brokers.nats_kit import Place
from tests.docs.following import Guide, Shell
from tests.docs.pages import TREE, names_in, table_rows, the_block
from tests.docs.processes import until

GUIDE = Guide(TREE / "docs" / "add-a-database.md", "sources")

DOES_NOT_APPLY = Counter(
    {
        "acme.database has one writer at a time: no transaction commits behind a later one": 3,
        "acme.database has no tables: none can be missing": 2,
        "acme.database has no connections that could be cut": 2,
        "acme.database leaves out the optional contract Parking; `fencepost parked` refuses it by name": 14,
    }
)


@pytest.mark.slow
def test_the_rules_pass(tmp_path: Path) -> None:
    """All but those that do not apply, which the page names."""
    shell = Shell(GUIDE, tmp_path)
    (command,) = GUIDE.commands("kit")
    printed = shell.run(*command)
    skipped = re.findall(r"^SKIPPED \[(\d+)\] \S+: (.*)$", printed, re.MULTILINE)
    assert sum((Counter({reason: int(count)}) for count, reason in skipped), Counter()) == DOES_NOT_APPLY
    passed, left = re.findall(r"(\d+) passed, (\d+) skipped in", printed)[0]
    assert int(passed) > 80, printed
    assert int(left) == DOES_NOT_APPLY.total()
    assert f"`{passed} passed, {left} skipped`" in GUIDE.page.read_text()
    left_behind = {path.name for path in set(tmp_path.iterdir()) - shell.made if not path.name.startswith(".")}
    assert left_behind == {"rules.lmdb"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("if identity(self._source.path) != self._file:", "if False:"),
        ("return found.st_dev, found.st_ino", "return str(path)"),
    ],
)
def test_a_plug_in_that_takes_another_file_for_its_own_is_caught(tmp_path: Path, text: str, instead: str) -> None:
    """A15: a backup was put back under it."""
    shell = Shell(GUIDE, tmp_path)
    shell.weaken(text, instead)
    (command,) = GUIDE.commands("kit")
    printed = shell.run(*command, "-rf", "-k", "replaced", succeeds=False)
    failed = set(re.findall(r"^FAILED \S+::(\w+)", printed, re.MULTILINE))
    assert failed == {
        "test_a_session_of_a_file_that_was_replaced_is_lost",
        "test_a_wait_notices_that_the_file_was_replaced",
    }


def arrived(nats_url: str, name: str) -> str:
    """The program of the page that looks what has arrived, for the server and the stream of a test."""
    text = the_block(GUIDE.page, "python", "arrived").text
    for theirs, ours in (("nats://127.0.0.1:4222", nats_url), ("FENCEPOST", name), ("orders", f"{name}.orders")):
        assert text.count(f'"{theirs}"') == 1
        text = text.replace(f'"{theirs}"', f'"{ours}"')
    assert "{'orders': 100}" in GUIDE.page.read_text()
    return text


@pytest.mark.slow
def test_for_real(nats_url: str, fresh_name: str, tmp_path: Path) -> None:
    """A15, too: under a relay that runs, a backup is put back from before it published anything. It publishes none of
    that again, and everything that comes afterwards.
    """
    shell = Shell(
        GUIDE,
        tmp_path,
        FENCEPOST_RELAY__NAME=fresh_name,
        FENCEPOST_BROKER__URL=nats_url,
        FENCEPOST_BROKER__STREAM=fresh_name,
        FENCEPOST_BROKER__SUBJECT_PREFIX=f"{fresh_name}.",
    )
    schema, check, program, status, relay = GUIDE.commands("run")
    assert {"fencepost_lease", "fencepost_outbox"} <= set(re.findall(r"\w+", shell.run(*schema)))
    assert "limit: a version is the message's position" in shell.run(*check)
    shell.run(*program)
    assert "pending: 100\n" in shell.run(*status)
    shutil.copytree(tmp_path / "shop.lmdb", tmp_path / "backup.lmdb")
    stream, look = Place(nats_url, fresh_name), arrived(nats_url, fresh_name)
    try:
        with shell.relaying(relay):
            until(lambda: '"event": "taken_over"' in shell.log(), "the relay has the stream")
            until(lambda: len(asyncio.run(stream.published())) == 100, "everything is published")
            assert shell.run("python", "-c", look) == f"{{'{fresh_name}.orders': 100}}\n"
            (tmp_path / "shop.lmdb").rename(tmp_path / "old.lmdb")
            (tmp_path / "backup.lmdb").rename(tmp_path / "shop.lmdb")
            shell.run(*program)
            until(lambda: len(asyncio.run(stream.published())) >= 200, "what came afterwards is published")
            until(lambda: "pending: 0\n" in shell.run(*status), "everything is settled")
        published = asyncio.run(stream.published())
    finally:
        asyncio.run(stream.drop())
    assert "the file was replaced" in shell.log()
    assert re.search(r'"event": "receipts_settled".*"rows": 100\b', shell.log())
    assert [json.loads(message.body)["cents"] for message in published] == 2 * [*range(100, 200)]
    assert {message.headers["ce-subject"] for message in published} == {f"order-{n}" for n in range(10)}


def test_everything_that_is_imported_is_in_the_table(tmp_path: Path) -> None:
    public = {names_in(module)[0]: names_in(what) for module, what in table_rows(GUIDE.page, "module")}
    imported: set[str] = set()
    for text in GUIDE.files().values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fencepost."):
                names = {alias.name for alias in node.names}
                assert names <= set(public[str(node.module)]), node.module
                imported.add(str(node.module))
            elif isinstance(node, ast.ImportFrom) and node.module == "fencepost":
                imported.update(f"fencepost.{alias.name}" for alias in node.names)
    assert imported == set(public)
    program = "; ".join(f"import {module}" for module in public)
    there = [f"{module}.{name.partition('.')[0]}" for module, names in public.items() for name in names]
    Shell(GUIDE, tmp_path).run("python", "-c", f"{program}; [{', '.join(there)}]")


def test_the_rules_that_are_named_exist() -> None:
    GUIDE.check_rules_that_are_named(at_least=20)


def test_every_error_of_the_library_has_a_family(tmp_path: Path) -> None:
    program = (
        "import json, lmdb; from acme.database import fault_of\n"
        "kinds = [k for k in vars(lmdb).values() if isinstance(k, type) and issubclass(k, Exception)]\n"
        "print(json.dumps({k.__name__: [c.__name__ for c in type(fault_of(k('x'), 'LMDB')).__mro__] for k in kinds}))"
    )
    families = json.loads(Shell(GUIDE, tmp_path).run("python", "-c", program))
    assert len(families) > 20
    assert all("FixError" in family or "RetryError" in family for family in families.values())
    assert [families[name][0] for name in ("MapFullError", "DiskError", "PanicError", "ReadonlyError")] == [
        *("FixError", "Unavailable", "ConnectionLost", "AccessDenied")
    ]


def test_what_is_installed_exists() -> None:
    project = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    *_, (_, _, own, library) = GUIDE.commands("install")
    assert all(extra in project for extra in re.findall(r"\[(.*)\]", own)[0].split(","))
    assert any(name.startswith(library) for name in project["dev"])


def test_it_stays_small() -> None:
    assert GUIDE.lines() <= 310
