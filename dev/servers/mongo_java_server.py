"""mongo-java-server, which speaks MongoDB's protocol: single documents, no transactions, no change streams.

Its jars come from Maven into a folder outside the tree, with a small main class that says it is a MongoDB 5.0: drivers
refuse the version that it names by itself. That class is compiled by a compiler that is a jar, too.
"""

import os
import subprocess
from pathlib import Path

from servers.maven import JavaServer, copy_jars
from servers.mongo_wire import is_answered
from servers.ports import HOST
from servers.server import CACHE, Launch, ServerError, need_program
from servers.state import Place

VERSION = "1.47.0"
ARTIFACTS = (
    ("de.bwaldvogel", "mongo-java-server", VERSION),
    ("de.bwaldvogel", "mongo-java-server-h2-backend", VERSION),
    ("org.slf4j", "slf4j-nop", "2.0.17"),
    ("org.eclipse.jdt", "ecj", "3.33.0"),
)
FOLDER = CACHE / f"mongo-java-server-{VERSION}"
MAIN = """\
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import java.util.List;

public final class Main {
  private static final class Five implements MongoVersion {
    public List<Integer> getVersionArray() { return List.of(5, 0, 0); }
    public int getWireVersion() { return 9; }
  }

  public static void main(String[] arguments) {
    MongoServer server = new MongoServer(new H2Backend(arguments[2]).version(new Five()));
    Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow));
    server.bind(arguments[0], Integer.parseInt(arguments[1]));
  }
}
"""


class MongoJavaServer(JavaServer):
    """One process with its documents in one file."""

    name = "mongo-java-server"
    cache = FOLDER
    ready = "Main.class"

    def load(self, draft: Path, made: Path) -> None:
        """See JavaServer."""
        copy_jars(self.name, ARTIFACTS, draft, made)
        _compile(made)

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        java = [need_program("java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-cp", f"{FOLDER}:{FOLDER}/*"]
        return [Launch([*java, "Main", HOST, str(place.ports["client"]), str(place.folder / "data.db")])]

    def answers(self, place: Place) -> bool:
        """See Server."""
        return is_answered(place.ports["client"])

    def url(self, place: Place) -> str:
        """See Server."""
        return f"mongodb://{HOST}:{place.ports['client']}/test?retryWrites=false"


def _compile(jars: Path) -> None:
    source = jars / "Main.java"
    source.write_text(MAIN, encoding="utf-8")
    (compiler,) = jars.glob("ecj-*.jar")
    argv = [need_program("java"), "-jar", str(compiler), "-17", "-cp", os.pathsep.join(map(str, jars.glob("*.jar")))]
    done = subprocess.run([*argv, "-d", str(jars), str(source)], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise ServerError(f"the main class of mongo-java-server does not compile: {lines[-1]}")
