"""Apicurio Registry, a schema registry with the API of Confluent's. It keeps its schemas in memory.

It comes from Maven as one archive, which is unpacked into a folder outside the tree.
"""

import http.client
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from servers.maven import copy_archive
from servers.ports import HOST
from servers.server import ANSWER_TIMEOUT_S, Launch, Server, find_program, need_program
from servers.state import Place

VERSION = "3.0.9"
ARTIFACT = ("io.apicurio", "apicurio-registry-app", VERSION)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fencepost" / f"apicurio-{VERSION}"
JAR = CACHE / f"apicurio-registry-app-{VERSION}-runner.jar"
API = "/apis/ccompat/v7"
# It lives for minutes, so code that is optimised the most would come too late.
JAVA_OPTIONS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1"]


class Apicurio(Server):
    """One process, the schemas in memory: a new start begins with none."""

    name = "apicurio"
    elsewhere = "a Java runtime 17 or later and Maven (java and mvn on the PATH)"

    def packages(self) -> list[str]:
        """See Server."""
        missing = [] if find_program("java") else ["default-jre-headless"]
        return missing if JAR.exists() or find_program("mvn") else [*missing, "maven"]

    def is_installed(self) -> bool:
        """See Server."""
        return find_program("java") is not None and JAR.exists()

    def fetch(self) -> None:
        """Unpack beside the final folder, then rename it: what is there is always whole."""
        if JAR.exists():
            return
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE.parent, prefix="apicurio-") as draft:
            unpacked = Path(draft) / "unpacked"
            with tarfile.open(copy_archive("Apicurio Registry", ARTIFACT, "all", "tar.gz", Path(draft))) as archive:
                archive.extractall(unpacked, filter="data")
            if not JAR.exists():  # another checkout may have been quicker
                shutil.rmtree(CACHE, ignore_errors=True)
                unpacked.rename(CACHE)

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        settings = [
            f"-Djava.io.tmpdir={place.folder}",
            f"-Dquarkus.http.host={HOST}",
            f"-Dquarkus.http.port={place.ports['client']}",
            "-Dquarkus.http.access-log.enabled=false",
            "-Dquarkus.log.level=WARN",
        ]
        return [Launch([need_program("java"), *JAVA_OPTIONS, *settings, "-jar", str(JAR)])]

    def answers(self, place: Place) -> bool:
        """See Server."""
        link = http.client.HTTPConnection(HOST, place.ports["client"], timeout=ANSWER_TIMEOUT_S)
        try:
            link.request("GET", f"{API}/schemas/types")
            return link.getresponse().status == http.HTTPStatus.OK
        except http.client.HTTPException as error:
            raise ConnectionError("no answer yet") from error
        finally:
            link.close()

    def url(self, place: Place) -> str:
        """See Server."""
        return f"http://{HOST}:{place.ports['client']}{API}"
