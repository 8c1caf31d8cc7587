"""The kit as somebody else runs it: from another folder, by name, on the command line."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost import plugins
from fencepost.errors import FixError
from fencepost.ports import BrokerOptions
from fencepost.testing.options import setting

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing-a-plugin.md"

Run = Callable[..., subprocess.CompletedProcess[str]]

PLUGIN = '''
"""Somebody else's database, which happens to be the one in memory."""
from fencepost.databases.memory import schema, source
{writer}
'''
BROKER = """
from dataclasses import replace
from fencepost import plugins
from fencepost.brokers import memory

def broker(options):
    return memory.broker({options})
"""
WRITER = "from fencepost.testing.writers.memory import writer"
ALONE = """
from contextlib import asynccontextmanager
from fencepost.testing import patience
from fencepost.testing.writers.memory import MemoryWriter, writer as of_memory

patience.DEADLINE_S = 0.5
{lock}

class OneAtATime(MemoryWriter):
    @asynccontextmanager
    async def transaction(self):
        {acquire}
        try:
            async with super().transaction() as transaction:
                yield transaction
        finally:
            LOCK.release()

def writer(options):
    made = of_memory(options)
    made.__class__ = OneAtATime
    return made
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the kit in an empty folder with these arguments."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--pyargs",
            "fencepost.testing",
            "-p",
            "no:hypothesispytest",
            *arguments,
        ]
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("FENCEPOST_", "PYTEST_", "CI"))
        }
        path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**clean, "PYTHONPATH": os.pathsep.join(path), **variables}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


def test_the_rules_of_one_contract_run_from_another_folder(run: Run) -> None:
    done = run("--database=memory", "-v", "-k", "settling_twice or tombstone")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_sources.py::TestSource::test_settling_twice_settles_once PASSED" in done.stdout
    assert "2 passed" in done.stdout
    assert "test_brokers.py" not in done.stdout
    assert "Warning" not in done.stdout + done.stderr


def test_several_contracts_run_at_once_and_one_file_alone(run: Run) -> None:
    done = run("--database=memory", "--broker=memory", "--election=memory", "--collect-only", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    for contract in ("sources", "brokers", "elections"):
        assert f"test_{contract}.py" in done.stdout


def test_without_a_choice_nothing_runs_and_that_is_an_error(run: Run) -> None:
    done = run()
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.strip() == (
        "ERROR: fencepost.testing: no rules are chosen; give --database=NAME, --broker=NAME or --election=NAME"
    )


def test_an_unknown_name_is_one_clear_line(run: Run) -> None:
    """H4"""
    done = run("--broker=kafak")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no broker is called 'kafak'" in done.stderr
    assert f"known are {', '.join(plugins.names('broker'))}" in done.stderr


def test_a_module_of_somebody_else_with_its_own_writer(run: Run, tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "store.py").write_text(PLUGIN.format(writer=WRITER))
    done = run("--database=acme.store", "--database-url=memory://acme", "-k", "settling or reserv", "-q")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_module_whose_writer_is_elsewhere(run: Run, tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "store.py").write_text(PLUGIN.format(writer=""))
    (tmp_path / "acme" / "kit.py").write_text(WRITER)
    arguments = ("--database=acme.store", "--database-url=memory://acme", "-k", "settling or reserv", "-q")
    missing = run(*arguments)
    assert missing.returncode == pytest.ExitCode.USAGE_ERROR
    assert "acme.store has no writer(options)" in missing.stderr
    done = run(*arguments, "--writer=acme.kit")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("given", ["memory://acme", "acme.bus+memory://acme"])
@pytest.mark.parametrize(
    ("options", "outcome"),
    [("replace(options, url=plugins.spoken(options.url))", "1 passed"), ("options", "is not the URL of a broker")],
    ids=["looks behind the plus", "hands it on"],
)
def test_a_broker_of_somebody_else_is_told_the_url_that_a_relay_tells_it(
    run: Run, tmp_path: Path, given: str, options: str, outcome: str
) -> None:
    """One that hands it to its library as it is passes no rule, as it would not run in a relay."""
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "bus.py").write_text(BROKER.format(options=options))
    arguments = ("--broker=acme.bus", f"--broker-url={given}", "--reader=fencepost.testing.readers.memory")
    assert outcome in run(*arguments, "-k", "tombstone", "-q").stdout


@pytest.mark.parametrize(
    ("lock", "acquire", "returncode"),
    [
        ("import asyncio; LOCK = asyncio.Lock()", "await LOCK.acquire()", pytest.ExitCode.TESTS_FAILED),
        ("import threading; LOCK = threading.Lock()", "LOCK.acquire()", pytest.ExitCode.INTERRUPTED),
    ],
    ids=["waits", "blocks"],
)
def test_a_writer_that_only_says_that_it_is_concurrent(
    run: Run, tmp_path: Path, lock: str, acquire: str, returncode: int
) -> None:
    """Nothing waits for ever, and what is wrong is said."""
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "alone.py").write_text(ALONE.format(lock=lock, acquire=acquire))
    done = run("--database=memory", "--writer=acme.alone", "-k", "commits_late")
    assert "say `concurrent = False`" in done.stdout + done.stderr
    assert done.returncode == returncode


def test_a_writer_without_what_the_rules_need_is_told_so(run: Run, tmp_path: Path) -> None:
    text = "class Lacking:\n    transaction = parked = None\nwriter = lambda _: Lacking()"
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "lacking.py").write_text(text)
    done = run("--database=memory", "--writer=acme.lacking", "-k", "settling_twice")
    assert "the writer Lacking has no concurrent, last_error, close: fencepost.testing.harness.Writer" in done.stdout


@pytest.mark.parametrize(("variables", "outcome"), [({}, "2 skipped"), ({"CI": "true"}, "2 errors")])
def test_a_missing_server_skips_on_a_laptop_and_fails_in_ci(run: Run, variables: dict[str, str], outcome: str) -> None:
    done = run("--broker=kafka", "-k", "empty_batch or tombstone", "-rs", **variables)
    assert outcome in done.stdout
    assert "give --broker-url or set FENCEPOST_TEST_KAFKA_URL" in done.stdout


def test_settings_reach_the_broker(run: Run) -> None:
    done = run("--broker=memory", "--broker-setting", "delivery=at-least-once", "-k", "plain_broker", "-q")
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    wrong = run("--broker=memory", "--broker-setting", "delivery")
    assert "'delivery' is not NAME=VALUE" in wrong.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a=1", ("a", 1)), ("a=x", ("a", "x")), ("a=", ("a", "")), ("a=b=c", ("a", "b=c")), ('a=["x"]', ("a", ["x"]))],
)
def test_a_setting_is_json_or_plain_text(text: str, expected: tuple[str, object]) -> None:
    assert setting(text) == expected


def blocks(text: str) -> dict[str, str]:
    """The Python of the page, by the file that its first line names ("" where it names none)."""
    found = re.findall(r"^```python\n(?:# (\S+\.py)\n)?(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return dict(found)


def test_the_documented_plugin_passes(run: Run, tmp_path: Path) -> None:
    files = blocks(PAGE.read_text())
    for name in ("acme/lines.py", "acme/lines_reader.py", "test_rules.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(files[name])
    done = run("--broker=acme.lines", f"--broker-url=lines://{tmp_path}/not/yet", "--reader=acme.lines_reader", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    ended = re.findall(r"\d+ passed, \d+ skipped", done.stdout)[0]
    assert int(ended.split()[0]) > 20
    assert f"`{ended}`" in (PAGE.parent / "add-a-broker.md").read_text()
    own = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:hypothesispytest",
        "-q",
        "test_rules.py",
        "-k",
        "tombstone or refused",
    ]
    done = subprocess.run(own, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("place", "told"),
    [("file/below", "check the URL"), ("missing", "set create = true")],
)
def test_a_place_where_the_documented_plugin_cannot_write_is_told(tmp_path: Path, place: str, told: str) -> None:
    """And not tried again and again."""
    named: dict[str, Any] = {}
    exec(blocks(PAGE.read_text())["acme/lines.py"], named)
    (tmp_path / "file").write_text("")
    options = BrokerOptions(url=f"lines://{tmp_path}/{place}", source="/x", create=place != "missing")
    with pytest.raises(FixError, match=told):
        asyncio.run(named["broker"](options).open())


def test_the_documented_judgement_is_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.read_text()
    exec(blocks(page)[""], {})
    printed = capsys.readouterr().out.strip()
    assert "".join(f"    {line}\n" for line in printed.splitlines()) in page


def test_other_runs_of_pytest_do_not_see_the_options(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--database')")
    (tmp_path / "test_own.py").write_text(
        "def test(pytestconfig): assert pytestconfig.getoption('--database') == 'mine'"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "--database=mine"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
