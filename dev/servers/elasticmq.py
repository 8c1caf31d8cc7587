"""ElasticMQ, which speaks SQS's protocol. Its jars come from Maven into a folder outside the tree."""

from pathlib import Path

from servers.maven import JavaServer, copy_jars
from servers.ports import HOST
from servers.server import CACHE, Launch, ask, need_program
from servers.state import Place

VERSION = "1.6.11"
ARTIFACTS = (("org.elasticmq", "elasticmq-server_2.13", VERSION),)
# The server names it among what it needs, and it is not published.
EXCEPT = ("org.elasticmq", "elasticmq-common-test_2.13")
FOLDER = CACHE / f"elasticmq-{VERSION}"
SETTINGS = """\
include classpath("application.conf")
node-address {{ protocol = http, host = "{host}", port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-hostname = "{host}", bind-port = {port}, sqs-limits = strict }}
rest-stats {{ enabled = false }}
"""
HEADERS = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.ListQueues"}


class ElasticMQ(JavaServer):
    """One process with its queues in memory."""

    name = "sqs"
    cache = FOLDER
    ready = f"elasticmq-server_2.13-{VERSION}.jar"

    def load(self, draft: Path, made: Path) -> None:
        """See JavaServer."""
        copy_jars("ElasticMQ", ARTIFACTS, draft, made, EXCEPT)

    def prepare(self, place: Place) -> None:
        """See Server."""
        settings = SETTINGS.format(host=HOST, port=place.ports["client"])
        (place.folder / "elasticmq.conf").write_text(settings, encoding="ascii")

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        java = [need_program("java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1"]
        settings = f"-Dconfig.file={place.folder / 'elasticmq.conf'}"
        return [Launch([*java, settings, "-cp", f"{FOLDER}/*", "org.elasticmq.server.Main"])]

    def answers(self, place: Place) -> bool:
        """It lists its queues."""
        return ask(place.ports["client"], "POST", "/", "{}", HEADERS).startswith(b"{")

    def url(self, place: Place) -> str:
        """See Server."""
        return f"sqs://eu-west-1/?endpoint=http://{HOST}:{place.ports['client']}"
