"""Every runnable block of README and docs works as it stands, every link leads somewhere, every test named is there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from pymongo import MongoClient

import check_docs
from tests.databases.mariadb_kit import mariadb_database
from tests.docs.pages import PAGES, SERVERS, TREE, Block, blocks, is_run, needed
from tests.docs.processes import environment
from tests.redis_outbox.servers import redis_server

RUN = [page for page in PAGES if any(is_run(block) for block in blocks(page))]
WITH_SERVER = {
    name: [page for page in RUN if any(needed(b) == name for b in blocks(page))] for name in SERVERS.values()
}
_TEST = re.compile(r"(?:tests|src/fencepost/testing)/[A-Za-z0-9_/]+\.py(?:::[A-Za-z0-9_]+)?")


def run_page(page: Path, folder: Path, env: Mapping[str, str]) -> int:
    """Execute a page's blocks in a folder; how many there were."""
    command = [sys.executable, "-W", "error", "-m", "tests.docs.run_page", str(page)]
    variables = environment({"PYTHONPATH": str(TREE), **env})
    variables = {name: value for name, value in variables.items() if name not in SERVERS.values() or name in env}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return int(done.stdout.split()[-2])


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    assert run_page(page, tmp_path, {}) == sum(map(is_run_with, blocks(page)))


def is_run_with(block: Block, variable: str | None = None) -> bool:
    """Whether a block is executed where only this server is there."""
    return is_run(block) and needed(block) in {None, variable}


@pytest.mark.parametrize("page", WITH_SERVER["DATABASE_URL"], ids=lambda page: page.name)
def test_blocks_run_with_postgresql(page: Path, tmp_path: Path, fresh_database: str) -> None:
    expected = sum(is_run_with(block, "DATABASE_URL") for block in blocks(page))
    assert run_page(page, tmp_path, {"DATABASE_URL": fresh_database}) == expected


@pytest.mark.parametrize("page", WITH_SERVER["MARIADB_URL"], ids=lambda page: page.name)
def test_blocks_run_with_mariadb(page: Path, tmp_path: Path, mariadb_url: str, fresh_name: str) -> None:
    expected = sum(is_run_with(block, "MARIADB_URL") for block in blocks(page))
    with mariadb_database(mariadb_url, fresh_name) as url:
        assert run_page(page, tmp_path, {"MARIADB_URL": url}) == expected


@pytest.mark.parametrize("page", WITH_SERVER["REDIS_URL"], ids=lambda page: page.name)
def test_blocks_run_with_redis(page: Path, tmp_path: Path) -> None:
    expected = sum(is_run_with(block, "REDIS_URL") for block in blocks(page))
    with redis_server(tmp_path / "server") as server:
        assert run_page(page, tmp_path, {"REDIS_URL": server.url}) == expected


@pytest.mark.parametrize("page", WITH_SERVER["MONGODB_URL"], ids=lambda page: page.name)
def test_blocks_run_with_mongodb(page: Path, tmp_path: Path, secantusdb_url: str, fresh_name: str) -> None:
    expected = sum(is_run_with(block, "MONGODB_URL") for block in blocks(page))
    url = urlunsplit(urlsplit(secantusdb_url)._replace(path=f"/{fresh_name}"))
    try:
        assert run_page(page, tmp_path, {"MONGODB_URL": url}) == expected
    finally:
        client: MongoClient[dict[str, object]] = MongoClient(url)
        with client:
            client.drop_database(fresh_name)


def test_the_pages_that_are_run() -> None:
    """So that a mistake in a fence, or in this test, does not leave a page out silently."""
    assert {page.name for page in RUN} >= {"outbox.md", "relay.md", "events.md"}
    assert {page.name for page in WITH_SERVER["DATABASE_URL"]} >= {"outbox.md"}
    assert {page.name for page in WITH_SERVER["MARIADB_URL"]} >= {"mariadb.md"}
    assert {page.name for page in WITH_SERVER["REDIS_URL"]} >= {"redis.md"}
    assert {page.name for page in WITH_SERVER["MONGODB_URL"]} >= {"mongodb.md"}


def test_a_block_that_fails_or_prints_something_else_is_noticed(tmp_path: Path) -> None:
    for number, text in enumerate(
        ["```python run\nassert False\n```\n", "```python run\nprint(1)\n```\n\n```text output\n2\n```\n"]
    ):
        page = tmp_path / f"{number}.md"
        page.write_text(text)
        with pytest.raises(AssertionError, match=f"{number}.md"):
            run_page(page, tmp_path, {})


def test_links(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_docs.main() == 0, capsys.readouterr().out


def test_every_test_that_is_named_exists() -> None:
    named = {name for page in PAGES for name in _TEST.findall(page.read_text(encoding="utf-8"))}
    assert len(named) > 20
    missing = [name for name in sorted(named) if not _exists(*name.partition("::")[::2])]
    assert missing == []


def _exists(file: str, test: str) -> bool:
    path = TREE / file
    return path.is_file() and (
        not test or re.search(rf"^\s*(async )?def {test}\b", path.read_text(), re.MULTILINE) is not None
    )
