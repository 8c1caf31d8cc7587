"""Django's backend for MariaDB on PyMySQL, in this process, where other tests may use mysqlclient.

A project says ``pymysql.install_as_MySQLdb()`` (docs/django.md), which holds for the whole process, and loads half of
PyMySQL a second time, under the other name. Here the other name is there only while Django's backend is imported.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pymysql.constants.CLIENT
import pymysql.constants.FIELD_TYPE
import pymysql.converters

BACKEND = "django.db.backends.mysql"


def load_backend() -> None:
    """Import it once."""
    if f"{BACKEND}.base" not in sys.modules:
        with _called("MySQLdb", pymysql):
            importlib.import_module(f"{BACKEND}.base")


@contextmanager
def _called(name: str, package: ModuleType) -> Iterator[None]:
    own = _below(package.__name__)
    hidden = _below(name)
    for each in hidden:
        del sys.modules[each]
    instead = {name + each.removeprefix(package.__name__): module for each, module in own.items()}
    sys.modules.update(instead)
    try:
        yield
    finally:
        for each in _below(name):
            del sys.modules[each]
        sys.modules.update(hidden)


def _below(package: str) -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if f"{name}.".startswith(f"{package}.")}
