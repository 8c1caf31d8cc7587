"""Jars from Maven, with everything that they need, in one folder."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from servers.server import ServerError, need_program

Artifact = tuple[str, str, str]
"""Group, name and version."""


def copy_jars(name: str, artifacts: Sequence[Artifact], draft: Path) -> Path:
    """Load the artifacts into ``draft``; the folder with the jars. Raises ServerError."""
    pom, jars = draft / "pom.xml", draft / "jars"
    pom.write_text(_project(name, artifacts), encoding="utf-8")
    argv = [
        need_program("mvn"),
        "-q",
        "-B",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={jars}",
    ]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")] or ["no reason given"]
        raise ServerError(f"mvn could not load the jars of {name}: {lines[0]}")
    return jars


def _project(name: str, artifacts: Sequence[Artifact]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>fencepost</groupId><artifactId>{name.replace(' ', '-')}</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )
