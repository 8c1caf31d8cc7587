"""Moto, which speaks SNS's protocol, and SQS's for those who subscribe.

It lives in an environment of its own outside the tree, because it brings what we do not need. It is not made for
requests at the same time, so it gets them one by one.
"""

from servers.ports import HOST
from servers.pypi import PyPIServer
from servers.server import CACHE, Launch, ask
from servers.state import Place

VERSION = "5.2.5"
ENVIRONMENT = CACHE / f"moto-{VERSION}"
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


class Moto(PyPIServer):
    """One process with everything in memory."""

    name = "sns"
    elsewhere = f"Python 3.11 with venv (moto {VERSION} is then loaded into {ENVIRONMENT})"
    environment = ENVIRONMENT
    ready = ENVIRONMENT / "installed"
    requirements = PACKAGES

    def launches(self, place: Place) -> list[Launch]:
        """See Server."""
        return [Launch([self.python, "-c", PROGRAM, HOST, str(place.ports["client"])])]

    def answers(self, place: Place) -> bool:
        """It says which topics it has."""
        question = "Action=ListTopics&Version=2010-03-31"
        return b"ListTopicsResponse" in ask(place.ports["client"], "POST", "/", question, HEADERS)

    def url(self, place: Place) -> str:
        """See Server."""
        return f"sns://eu-west-1/?endpoint=http://{HOST}:{place.ports['client']}"
