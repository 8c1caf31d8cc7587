"""Every runnable block of README and docs works as it stands, every link leads somewhere, every test named is there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import check_docs
from tests.docs.pages import PAGES, TREE, blocks, is_run, needs_postgresql
from tests.docs.processes import environment

RUN = [page for page in PAGES if any(is_run(block) for block in blocks(page))]
WITH_POSTGRESQL = [page for page in RUN if any(is_run(b) and needs_postgresql(b) for b in blocks(page))]
_TEST = re.compile(r"(?:tests|src/fencepost/testing)/[A-Za-z0-9_/]+\.py(?:::[A-Za-z0-9_]+)?")


def run_page(page: Path, folder: Path, env: Mapping[str, str]) -> int:
    """Execute a page's blocks in a folder; how many there were."""
    command = [sys.executable, "-W", "error", "-m", "tests.docs.run_page", str(page)]
    variables = environment({"PYTHONPATH": str(TREE), **env})
    variables = {name: value for name, value in variables.items() if name != "DATABASE_URL" or name in env}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return int(done.stdout.split()[-2])


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    expected = sum(is_run(block) and not needs_postgresql(block) for block in blocks(page))
    assert run_page(page, tmp_path, {}) == expected


@pytest.mark.parametrize("page", WITH_POSTGRESQL, ids=lambda page: page.name)
def test_blocks_run_with_postgresql(page: Path, tmp_path: Path, fresh_database: str) -> None:
    expected = sum(is_run(block) for block in blocks(page))
    assert run_page(page, tmp_path, {"DATABASE_URL": fresh_database}) == expected


def test_the_pages_that_are_run() -> None:
    """So that a mistake in a fence, or in this test, does not leave a page out silently."""
    assert {page.name for page in RUN} >= {"outbox.md", "relay.md", "events.md"}
    assert {page.name for page in WITH_POSTGRESQL} >= {"outbox.md"}


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
