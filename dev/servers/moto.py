"""Moto, which speaks SNS's protocol, and SQS's for those who subscribe.

It lives in an environment of its own outside the tree, because it brings what we do not need. It is not made for
requests at the same time, so it gets them one by one.
"""

import os
import shutil
import subprocess
import sys
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from servers.ports import HOST
from servers.server import ANSWER_TIMEOUT_S, Launch, Server, ServerError
from servers.state import Place

VERSION = "5.2.5"
ENVIRONMENT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fencepost" / f"moto-{VERSION}"
READY = ENVIRONMENT / "installed"
# Its extra "server" brings what only other services need, which takes minutes.
PACKAGES = (f"moto=={VERSION}", "flask==3.1.3", "flask-cors==6.0.5")
# By the signature, which is not looked at, it knows which service is asked.
HEADERS = {
    "Content-Type": "application/x-www-form-urlencoded",
    "Authorization": "AWS4-HMAC-SHA256 Credential=none/20300101/eu-west-1/sns/aws4_request, "
    "SignedHeaders=host, Signature=none",
}
PROGRAM = """\
import sys
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple(sys.argv[1], int(sys.argv[2]), DomainDispatcherApplication(create_backend_app), threaded=False)
"""


class Moto(Server):
    """One process with everything in memory."""

    name = "sns"
    elsewhere = f"Python 3.11 with venv (moto {VERSION} is then loaded into {ENVIRONMENT})"

    def packages(self) -> list[str]:
        """None: it comes from PyPI."""
        return []

    def is_installed(self) -> bool:
        """See Server."""
        return READY.exists()

    def fetch(self) -> None:
        """See Server."""
        if self.is_installed():
            return
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for argv in ([sys.executable, "-m", "venv", str(ENVIRONMENT)], [*pip, *PACKAGES]):
            if subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode:
                raise ServerError(f"moto could not be installed into {ENVIRONMENT}: {' '.join(argv[:3])} failed")
        READY.touch()

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        return [Launch([str(ENVIRONMENT / "bin" / "python"), "-c", PROGRAM, HOST, str(place.ports["client"])])]

    def answers(self, place: Place) -> bool:
        """It says which topics it has."""
        link = HTTPConnection(HOST, place.ports["client"], timeout=ANSWER_TIMEOUT_S)
        try:
            link.request("POST", "/", body="Action=ListTopics&Version=2010-03-31", headers=HEADERS)
            answer = link.getresponse()
            return answer.status == 200 and b"ListTopicsResponse" in answer.read()
        except HTTPException:
            return False
        finally:
            link.close()

    def url(self, place: Place) -> str:
        """See Server."""
        return f"sns://eu-west-1/?endpoint=http://{HOST}:{place.ports['client']}"
