"""The pytest options of the rules. Loaded by the plug-in ``fencepost.testing.entry`` when the rules are asked for."""

from __future__ import annotations

import importlib.util
import json
import warnings
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from fencepost import plugins
from fencepost.errors import FixError
from fencepost.testing.harness import reader_factory, writer_factory

pytest.register_assert_rewrite(*[f"fencepost.testing.{part}" for part in ("sources", "brokers", "elections")])

CONTRACTS = {"test_sources.py": "database", "test_brokers.py": "broker", "test_elections.py": "election"}
"""Which file has the rules of which contract."""

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, in a group of their own in ``--help``."""
    group = parser.getgroup("fencepost", "the rules of Fencepost's plug-ins (docs/testing-a-plugin.md)")
    for kind in CONTRACTS.values():
        group.addoption(
            f"--{kind}",
            dest=f"fencepost_{kind}",
            metavar="NAME",
            help=f"run the rules of a {kind}: a name, or a dotted module",
        )
        group.addoption(f"--{kind}-url", dest=f"fencepost_{kind}_url", metavar="URL", help=f"where the {kind} is")
    group.addoption("--writer", dest="fencepost_writer", metavar="MODULE", help="has writer(options) for the database")
    group.addoption("--reader", dest="fencepost_reader", metavar="MODULE", help="has reader(options) for the broker")
    group.addoption(
        "--broker-setting",
        dest="fencepost_broker_setting",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=setting,
        help="a setting of the broker plug-in, the value as JSON or plain text; may be given several times",
    )


def setting(text: str) -> tuple[str, object]:
    """The name and the value of NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def chosen(config: pytest.Config) -> list[str]:
    """The contracts whose rules are to be run."""
    return [kind for kind in CONTRACTS.values() if config.getoption(f"fencepost_{kind}")]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run nothing, and to run without what runs the rules."""
    # Every fixture and test here names its scope: what the folder's own configuration leaves open does not matter.
    warnings.filterwarnings("ignore", message='The configuration option "asyncio_default_fixture_loop_scope" is unset')
    if not chosen(config):
        raise pytest.UsageError(
            "fencepost.testing: no rules are chosen; give --database=NAME, --broker=NAME or --election=NAME"
        )
    if importlib.util.find_spec("pytest_asyncio") is None:
        raise pytest.UsageError('fencepost.testing: pytest-asyncio is not installed; pip install "fencepost[testing]"')
    try:
        _load(config)
    except FixError as error:
        raise pytest.UsageError(f"fencepost.testing: {error}") from error


def _load(config: pytest.Config) -> None:
    """Find every plug-in, and what the rules need besides, before the first rule runs. Raises FixError."""
    names = {kind: config.getoption(f"fencepost_{kind}") for kind in chosen(config)}
    for kind, name in names.items():
        plugins.load(kind, name)
    if "database" in names:
        writer_factory(names["database"], config.getoption("fencepost_writer"))
    if "broker" in names:
        reader_factory(names["broker"], config.getoption("fencepost_reader"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the rules of the contracts that were not chosen."""
    kind = CONTRACTS.get(collection_path.name) if collection_path.parent == HERE else None
    return True if kind is not None and kind not in chosen(config) else None
