"""Apicurio Registry, a schema registry with the API of Confluent's. It keeps its schemas in memory.

It comes from Maven as one archive, which is unpacked into a folder outside the tree.
"""

import tarfile
from pathlib import Path

from servers.maven import JavaServer, copy_archive
from servers.ports import HOST
from servers.server import CACHE, Launch, ask, need_program
from servers.state import Place

VERSION = "3.0.9"
ARTIFACT = ("io.apicurio", "apicurio-registry-app", VERSION)
FOLDER = CACHE / f"apicurio-{VERSION}"
JAR = f"apicurio-registry-app-{VERSION}-runner.jar"
API = "/apis/ccompat/v7"
# It lives for minutes, so code that is optimised the most would come too late.
JAVA_OPTIONS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1"]


class Apicurio(JavaServer):
    """One process, the schemas in memory: a new start begins with none."""

    name = "apicurio"
    cache = FOLDER
    ready = JAR

    def load(self, draft: Path, made: Path) -> None:
        """See JavaServer."""
        with tarfile.open(copy_archive("Apicurio Registry", ARTIFACT, "all", "tar.gz", draft)) as archive:
            archive.extractall(made, filter="data")

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        settings = [
            f"-Djava.io.tmpdir={place.folder}",
            f"-Dquarkus.http.host={HOST}",
            f"-Dquarkus.http.port={place.ports['client']}",
            "-Dquarkus.http.access-log.enabled=false",
            "-Dquarkus.log.level=WARN",
        ]
        return [Launch([need_program("java"), *JAVA_OPTIONS, *settings, "-jar", str(FOLDER / JAR)])]

    def answers(self, place: Place) -> bool:
        """See Server."""
        return bool(ask(place.ports["client"], "GET", f"{API}/schemas/types"))

    def url(self, place: Place) -> str:
        """See Server."""
        return f"http://{HOST}:{place.ports['client']}{API}"
