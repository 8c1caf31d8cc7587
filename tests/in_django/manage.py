"""``python -m django COMMAND`` as a process of its own, with settings of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.docs.processes import environment
from tests.in_django import project

AS_MYSQLDB = "import pymysql\n\npymysql.install_as_MySQLdb()\n"


def settings_module(
    folder: Path, url: str, fencepost: Mapping[str, Any], *, pymysql: bool = True, **more: Any
) -> dict[str, str]:
    """Write it; the environment in which it is found. ``pymysql``: Django is to find PyMySQL as MySQLdb."""
    given = {
        "SECRET_KEY": "tests only",
        "USE_TZ": True,
        "INSTALLED_APPS": ["django.contrib.contenttypes", "django.contrib.auth", "fencepost.django"],
        "DATABASES": {"default": project.entry(url)},
        "FENCEPOST": dict(fencepost),
        **more,
    }
    lines = [f"{name} = {value!r}\n" for name, value in given.items()]
    first = AS_MYSQLDB if pymysql and url.startswith("mysql") else ""
    (folder / "written_settings.py").write_text(first + "".join(lines))
    return environment({"DJANGO_SETTINGS_MODULE": "written_settings", "PYTHONPATH": str(folder)})


def command(*arguments: str) -> list[str]:
    """A command of Django's."""
    return [sys.executable, "-W", "error", "-m", "django", *arguments]


def run(
    folder: Path, url: str, fencepost: Mapping[str, Any], *arguments: str, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    env = settings_module(folder, url, fencepost, **more)
    return subprocess.run(
        command(*arguments), cwd=folder, env=env, capture_output=True, text=True, timeout=90, check=False
    )


def python(folder: Path, url: str, fencepost: Mapping[str, Any], text: str, *, without: str = "", **more: Any) -> str:
    """Run a program in the project, as if a library were not there; the last line that it printed."""
    hide = f"import sys\nsys.modules[{without!r}] = None\n" if without else ""
    program = [sys.executable, "-W", "error", "-c", f"{hide}import django\ndjango.setup()\n{text}"]
    env = settings_module(folder, url, fencepost, **more)
    done = subprocess.run(program, cwd=folder, env=env, capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout.splitlines()[-1]
