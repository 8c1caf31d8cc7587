"""Servers that come from PyPI, into an environment of their own: they are none of our libraries."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from servers.server import Server, ServerError


class PyPIServer(Server):
    """``environment`` is whole once the file ``ready`` is there."""

    environment: Path
    ready: Path
    requirements: Sequence[str]

    @property
    def python(self) -> str:
        """The environment's interpreter."""
        return str(self.environment / "bin" / "python")

    def packages(self) -> list[str]:
        """None: it comes from PyPI."""
        return []

    def is_installed(self) -> bool:
        """See Server."""
        return self.ready.exists()

    def fetch(self) -> None:
        """See Server."""
        if self.is_installed():
            return
        shutil.rmtree(self.environment, ignore_errors=True)
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *self.requirements]
        for argv in ([sys.executable, "-m", "venv", str(self.environment)], pip):
            if subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode:
                where = f"{self.requirements[0]} could not be installed into {self.environment}"
                raise ServerError(f"{where}: {' '.join(argv[:3])} failed")
        self.ready.touch()
