"""A page that is followed literally: its files in a folder of the reader's, and its commands there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import TREE, blocks, the_block
from tests.docs.processes import environment, running

_NAMED = re.compile(r"# (\S+\.py)(?:, continued)?\n\n?")


@dataclass(frozen=True)
class Guide:
    """A page that leads to a plug-in which keeps the rules of ``kind``: "brokers" or "sources"."""

    page: Path
    kind: str

    def files(self) -> dict[str, str]:
        """The files that the page gives, each of one block or of several."""
        found: dict[str, str] = {}
        for block in blocks(self.page):
            if "file" in block.words:
                named = _NAMED.match(block.text)
                assert named is not None, block
                text = block.text[named.end() :]
                found[named[1]] = f"{found[named[1]]}\n\n{text}" if named[1] in found else text
        return found

    def lines(self) -> int:
        """How many of them are not empty."""
        return sum(bool(line.strip()) for text in self.files().values() for line in text.splitlines())

    def commands(self, word: str) -> list[list[str]]:
        """The commands of a block, without their comments."""
        lines = the_block(self.page, "sh", word).text.splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]

    def check_rules_that_are_named(self, at_least: int) -> None:
        """Each of them exists."""
        named = set(re.findall(r"`(test_\w+)`", self.page.read_text()))
        assert len(named) > at_least
        rules = (TREE / "src" / "fencepost" / "testing" / self.kind).glob("*.py")
        assert named <= set(re.findall(r"def (test_\w+)", "".join(file.read_text() for file in rules)))


class Shell:
    """The reader's folder, with the page's files in it. ``variables`` are those of the commands besides ours."""

    def __init__(self, guide: Guide, folder: Path, **variables: str) -> None:
        made, exported = guide.commands("folder")
        assert exported == ["export", "PYTHONPATH=."]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.folder = folder
        modules = os.pathsep.join([".", *filter(None, [os.environ.get("PYTHONPATH")])])
        self.env = {"PATH": path, "PYTHONPATH": modules, "PYTEST_ADDOPTS": "--color=no"} | variables
        self.run(*made)
        for name, text in guide.files().items():
            (folder / name).write_text(text)
        (folder / "fencepost.toml").write_text(the_block(guide.page, "toml", "config").text)
        self.made = set(folder.iterdir())

    def run(self, *command: str, succeeds: bool = True) -> str:
        """Run a command that ends well, or does not; what it printed."""
        env = {name: value for name, value in environment(self.env).items() if name != "CI"}
        done = subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=100, check=False
        )
        assert (done.returncode == 0) is succeeds, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def weaken(self, text: str, instead: str) -> None:
        """Change a line of the plug-in, which stands there once."""
        changed = [file for file in (self.folder / "acme").glob("*.py") if text in file.read_text()]
        assert len(changed) == 1
        assert changed[0].read_text().count(text) == 1
        changed[0].write_text(changed[0].read_text().replace(text, instead))

    def relaying(self, command: list[str]) -> AbstractContextManager[object]:
        """The relay, while the block runs."""
        return running(command, cwd=self.folder, output=self.folder / "relay.log", env=self.env)

    def log(self) -> str:
        """What the relay has logged so far."""
        return (self.folder / "relay.log").read_text()
