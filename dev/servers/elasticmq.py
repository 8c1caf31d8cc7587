"""ElasticMQ, which speaks SQS's protocol. Its jars come from Maven into a folder outside the tree."""

import json
import os
import shutil
import tempfile
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from servers.maven import copy_jars
from servers.ports import HOST
from servers.server import ANSWER_TIMEOUT_S, Launch, Server, find_program, need_program
from servers.state import Place

VERSION = "1.6.11"
ARTIFACTS = (("org.elasticmq", "elasticmq-server_2.13", VERSION),)
# The server names it among what it needs, and it is not published.
EXCEPT = ("org.elasticmq", "elasticmq-common-test_2.13")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fencepost" / f"elasticmq-{VERSION}"
SETTINGS = """\
include classpath("application.conf")
node-address {{ protocol = http, host = "{host}", port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-hostname = "{host}", bind-port = {port}, sqs-limits = strict }}
rest-stats {{ enabled = false }}
"""
HEADERS = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.ListQueues"}


class ElasticMQ(Server):
    """One process with its queues in memory."""

    name = "sqs"
    elsewhere = "a Java runtime 17 or later and Maven (java and mvn on the PATH)"

    def packages(self) -> list[str]:
        """See Server."""
        missing = [] if find_program("java") else ["default-jre-headless"]
        return missing if self._has_jars() or find_program("mvn") else [*missing, "maven"]

    def is_installed(self) -> bool:
        """See Server."""
        return find_program("java") is not None and self._has_jars()

    @staticmethod
    def _has_jars() -> bool:
        return (CACHE / f"elasticmq-server_2.13-{VERSION}.jar").exists()

    def fetch(self) -> None:
        """Load the jars beside their final folder, then rename it: what is there is always whole."""
        if self._has_jars():
            return
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE.parent, prefix="elasticmq-") as draft:
            jars = copy_jars("ElasticMQ", ARTIFACTS, Path(draft), EXCEPT)
            if not self._has_jars():  # another checkout may have been quicker
                shutil.rmtree(CACHE, ignore_errors=True)
                jars.rename(CACHE)

    def prepare(self, place: Place) -> None:
        """See Server."""
        settings = SETTINGS.format(host=HOST, port=place.ports["client"])
        (place.folder / "elasticmq.conf").write_text(settings, encoding="ascii")

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        java = [need_program("java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1"]
        settings = f"-Dconfig.file={place.folder / 'elasticmq.conf'}"
        return [Launch([*java, settings, "-cp", f"{CACHE}/*", "org.elasticmq.server.Main"])]

    def answers(self, place: Place) -> bool:
        """It lists its queues."""
        link = HTTPConnection(HOST, place.ports["client"], timeout=ANSWER_TIMEOUT_S)
        try:
            link.request("POST", "/", body="{}", headers=HEADERS)
            answer = link.getresponse()
            return answer.status == 200 and isinstance(json.loads(answer.read()), dict)
        except (HTTPException, ValueError):
            return False
        finally:
            link.close()

    def url(self, place: Place) -> str:
        """See Server."""
        return f"sqs://eu-west-1/?endpoint=http://{HOST}:{place.ports['client']}"
