"""README's first program and its quickstart, command by command, on real servers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from fencepost import app, config
from tests.brokers.kafka_kit import headers, read
from tests.brokers.nats_kit import Place
from tests.docs.pages import TREE, blocks, the_block
from tests.docs.processes import environment, running, until

README = TREE / "README.md"


def commands(word: str) -> list[list[str]]:
    """The commands of a block, without their comments."""
    lines = the_block(README, "sh", word).text.splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


class Shell:
    """A folder and an environment in which commands are run as a reader would."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.env = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **env}

    def run(self, *command: str) -> str:
        """Run a command that ends well; what it printed."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment(self.env),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def pending(self) -> int:
        """How much waits."""
        settings = config.load(self.folder / "fencepost.toml", self.env)
        return asyncio.run(app.source(settings).backlog()).pending

    def relay_until_settled(self) -> None:
        """Run `fencepost relay` until nothing waits."""
        assert self.pending() == 1
        with running(["fencepost", "relay"], cwd=self.folder, output=self.folder / "relay.log", env=self.env):
            until(lambda: self.pending() == 0, "the relay settles everything")


@pytest.mark.slow
def test_the_first_program(nats_url: str, fresh_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the configuration names the file of the database relative to the folder
    stream = Place(nats_url, fresh_name)
    shell = Shell(
        tmp_path,
        {
            "FENCEPOST_RELAY__NAME": fresh_name,
            "FENCEPOST_BROKER__URL": nats_url,
            "FENCEPOST_BROKER__STREAM": fresh_name,
            "FENCEPOST_BROKER__SUBJECT_PREFIX": f"{fresh_name}.",
        },
    )
    (tmp_path / "shop.py").write_text(the_block(README, "python", "shop").text)
    *before, relay = commands("relay")
    for command in before:
        shell.run(*command)
    assert relay == ["fencepost", "relay"]
    try:
        shell.relay_until_settled()
        (message,) = asyncio.run(stream.published())
    finally:
        asyncio.run(stream.drop())
    assert message.subject == f"{fresh_name}.orders"
    assert json.loads(message.body) == {"order": "order-1", "cents": 4200}
    assert (message.headers["ce-type"], message.headers["ce-subject"]) == ("order.placed", "order-1")


@pytest.fixture
def topics(kafka_url: str, fresh_name: str) -> Iterator[str]:
    """A topic of the test's own, removed with the receipts'."""
    yield fresh_name
    admin = AdminClient({"bootstrap.servers": kafka_url.removeprefix("kafka://")})
    for removed in admin.delete_topics([fresh_name, f"fencepost.receipts.{fresh_name}"]).values():
        removed.result(30)


@pytest.mark.slow
def test_the_quickstart(fresh_database: str, kafka_url: str, topics: str, tmp_path: Path) -> None:
    env = {
        "FENCEPOST_RELAY__NAME": topics,
        "FENCEPOST_DATABASE__URL": fresh_database,
        "FENCEPOST_BROKER__URL": kafka_url,
        "DATABASE_URL": fresh_database,
    }
    shell = Shell(tmp_path, env)
    init, apply, check, relay, status = commands("quickstart")
    for command in (init, apply, check):
        shell.run(*command)
    assert 'url = "postgresql://app:${DB_PASSWORD}@localhost:5432/shop"' in (tmp_path / "fencepost.toml").read_text()
    program = the_block(README, "python", "postgresql").text
    assert '"accounts"' in program
    (tmp_path / "accounts.py").write_text(program.replace('"accounts"', f'"{topics}"'))
    shell.run("python", "accounts.py")
    assert "pending: 1\n" in shell.run(*status)
    assert relay == ["fencepost", "relay"]
    shell.relay_until_settled()
    (record,) = read(kafka_url, topics)
    assert (record.key(), json.loads(record.value() or b"")) == (b"ada", {"owner": "ada", "cents": 4200})
    assert headers(record)["ce_type"] == "account.opened"


def test_it_stays_short() -> None:
    assert len(README.read_text().splitlines()) <= 150
    assert len(the_block(README, "python", "shop").text.splitlines()) <= 20


def test_the_two_commands_exist() -> None:
    makefile = (TREE / "Makefile").read_text()
    made = re.findall(r"^make (\w+)", "".join(b.text for b in blocks(README) if b.language == "sh"), re.MULTILINE)
    assert made == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in made)


def test_the_extras_exist() -> None:
    project = (TREE / "pyproject.toml").read_text()
    named = [extra for names in re.findall(r"'\.\[([a-z,]+)\]'", README.read_text()) for extra in names.split(",")]
    assert set(named) == {"postgresql", "kafka", "sqlite", "nats"}
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in named)
