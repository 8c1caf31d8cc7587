"""The pytest plug-in that every run of pytest loads: it adds nothing unless the rules are asked for by name.

A ``conftest.py`` could not do it: with ``--pyargs`` pytest finds it only after it has read the command line.
"""

from __future__ import annotations

import pytest

KIT = "fencepost.testing"
OPTIONS = "fencepost.testing.options"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Add the options of the rules where the command line names this package."""
    names = [str(argument).partition("::")[0] for argument in early_config.known_args_namespace.file_or_dir]
    asked = any(name == KIT or name.startswith(f"{KIT}.") for name in names)
    if asked and not early_config.pluginmanager.hasplugin(OPTIONS):
        early_config.pluginmanager.import_plugin(OPTIONS)
