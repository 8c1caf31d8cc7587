"""Servers that Java runs and Maven brings: jars with everything that they need, or an archive, outside the tree."""

import subprocess
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from servers.server import Server, ServerError, draft_of, find_program, need_program

Artifact = tuple[str, str, str]
"""Group, name and version."""


class JavaServer(Server):
    """What it needs is in ``cache``, and is whole once ``ready`` is there."""

    elsewhere = "a Java runtime 17 or later and Maven (java and mvn on the PATH)"
    cache: Path
    ready: str

    def packages(self) -> list[str]:
        """See Server."""
        missing = [] if find_program("java") else ["default-jre-headless"]
        return missing if self._is_loaded() or find_program("mvn") else [*missing, "maven"]

    def is_installed(self) -> bool:
        """See Server."""
        return find_program("java") is not None and self._is_loaded()

    def fetch(self) -> None:
        """See Server."""
        if not self._is_loaded():
            with draft_of(self.cache, self._is_loaded) as (draft, made):
                self.load(draft, made)

    def _is_loaded(self) -> bool:
        return (self.cache / self.ready).exists()

    @abstractmethod
    def load(self, draft: Path, made: Path) -> None:
        """Make the folder ``made``; what is only needed for that goes into ``draft``. Raises ServerError."""


def copy_jars(
    name: str, artifacts: Sequence[Artifact], draft: Path, jars: Path, left_out: tuple[str, str] | None = None
) -> None:
    """Load the artifacts, without ``left_out`` (group and name), into ``jars``. Raises ServerError."""
    pom = draft / "pom.xml"
    pom.write_text(_project(name, artifacts, left_out), encoding="utf-8")
    _maven(f"the jars of {name}", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}")


def copy_archive(name: str, artifact: Artifact, classifier: str, suffix: str, draft: Path) -> Path:
    """Load one archive, and nothing that it needs, into ``draft``; its path. Raises ServerError."""
    group, artifact_name, version = artifact
    coordinates = f"{group}:{artifact_name}:{version}:{suffix}:{classifier}"
    _maven(f"the archive of {name}", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={draft}")
    return draft / f"{artifact_name}-{version}-{classifier}.{suffix}"


def _maven(what: str, *arguments: str) -> None:
    argv = [need_program("mvn"), "-q", "-B", *arguments]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")] or ["no reason given"]
        raise ServerError(f"mvn could not load {what}: {lines[0]}")


def _project(name: str, artifacts: Sequence[Artifact], left_out: tuple[str, str] | None) -> str:
    without = ""
    if left_out is not None:
        group, artifact = left_out
        inner = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        without = f"<exclusions><exclusion>{inner}</exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"{without}</dependency>"
        for group, artifact, version in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>fencepost</groupId><artifactId>{name.replace(' ', '-')}</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )
