"""Jars from Maven, with everything that they need, in one folder; and archives."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from servers.server import ServerError, need_program

Artifact = tuple[str, str, str]
"""Group, name and version."""


def copy_jars(name: str, artifacts: Sequence[Artifact], draft: Path, left_out: tuple[str, str] | None = None) -> Path:
    """Load the artifacts, without ``left_out`` (group and name), into ``draft``; the folder with the jars.

    Raises ServerError.
    """
    pom, jars = draft / "pom.xml", draft / "jars"
    pom.write_text(_project(name, artifacts, left_out), encoding="utf-8")
    _maven(f"the jars of {name}", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}")
    return jars


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
