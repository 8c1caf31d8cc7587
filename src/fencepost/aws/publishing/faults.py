"""What an error of a request is about, the service as a whole, one queue or topic, or a message, and its family."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from fencepost.aws.address import Server
from fencepost.aws.faults import code_of, fault_of, silent, told
from fencepost.errors import (
    AccessDenied,
    ConnectionLost,
    Contention,
    DeadlineExceeded,
    FencepostError,
    FixError,
    ParkError,
    SchemaMissing,
    Unavailable,
)
from fencepost.faults import Verdict


class About(enum.Enum):
    """Whom an error is about."""

    SERVICE = enum.auto()
    PLACE = enum.auto()
    """A queue, or a topic at SNS: all of its messages wait."""
    MESSAGE = enum.auto()
    """One message of the request; nobody knows which one where there are several."""


class Fault(NamedTuple):
    """An error in its family. ``pause_s`` is how long the place wants to be left alone."""

    about: About
    error: FencepostError
    pause_s: float = 0.0


_CREDENTIALS = "give this process credentials that are valid: environment, ~/.aws, or the role of the machine"
_RIGHTS = "allow it in the policy of the relay's identity, or of the queue or topic"
_KEY = "look at the KMS key of the queue or topic, and at who may use it"
_MISSING = "create it; with create = true, and without account, the relay does"
_SLOWER = "raise the quota, or turn on high throughput for FIFO; the messages wait meanwhile"
_OTHER = "is it {one} that answers there? check the endpoint in the URL, http or https among it"

DELETED_PAUSE_S = 60.0
"""A name can be used again only so long after what had it was deleted."""

_SERVICE: dict[str, Verdict] = {
    "expiredtoken": (AccessDenied, _CREDENTIALS),
    "incompletesignature": (AccessDenied, _CREDENTIALS),
    "invalidaccesskeyid": (AccessDenied, _CREDENTIALS),
    "invalidclienttokenid": (AccessDenied, _CREDENTIALS),
    "invalidsecurity": (AccessDenied, _CREDENTIALS),
    "invalidsignature": (AccessDenied, _CREDENTIALS),
    "missingauthenticationtoken": (AccessDenied, _CREDENTIALS),
    "optinrequired": (AccessDenied, _CREDENTIALS),
    "requestexpired": (AccessDenied, "set the clock of this machine"),
    "signaturedoesnotmatch": (AccessDenied, _CREDENTIALS),
    "unrecognizedclient": (AccessDenied, _CREDENTIALS),
    "internalerror": (ConnectionLost, ""),  # what was asked may have happened
    "internalfailure": (ConnectionLost, ""),
    "internalservererror": (ConnectionLost, ""),
    "serviceunavailable": (Unavailable, ""),
    "invalidaction": (FixError, _OTHER),
    "unknownoperation": (FixError, _OTHER),
}

_PLACE: dict[str, Verdict] = {
    "accessdenied": (AccessDenied, _RIGHTS),
    "authorizationerror": (AccessDenied, _RIGHTS),
    "concurrentaccess": (Contention, ""),
    "kmsaccessdenied": (AccessDenied, _KEY),
    "kmsdisabled": (FixError, _KEY),
    "kmsinvalidkeyusage": (FixError, _KEY),
    "kmsinvalidstate": (FixError, _KEY),
    "kmsnotfound": (FixError, _KEY),
    "kmsoptinrequired": (FixError, _KEY),
    "kmsthrottled": (Unavailable, _KEY),
    "kmsthrottling": (Unavailable, _KEY),
    "nonexistentqueue": (SchemaMissing, _MISSING),
    "notfound": (SchemaMissing, _MISSING),
    "overlimit": (FixError, "raise the quota"),
    "queuealreadyexists": (FixError, "it has other attributes: create it yourself, and set create = false"),
    "queuedeletedrecently": (Unavailable, "a name can be used again 60 s after its queue was deleted"),
    "queuedoesnotexist": (SchemaMissing, _MISSING),
    "queuenameexists": (FixError, "it has other attributes: create it yourself, and set create = false"),
    "requestlimitexceeded": (Unavailable, _SLOWER),
    "requestthrottled": (Unavailable, _SLOWER),
    "staletag": (Contention, ""),
    "throttled": (Unavailable, _SLOWER),
    "throttling": (Unavailable, _SLOWER),
    "toomanyrequests": (Unavailable, _SLOWER),
    "topiclimitexceeded": (FixError, "raise the quota of topics"),
}

_MESSAGE = frozenset(
    {
        "batchrequesttoolong",
        "invalidattributename",
        "invalidattributevalue",
        "invalidmessagecontents",
        "invalidparameter",
        "invalidparametercombination",
        "invalidparametervalue",
        "missingparameter",
        "parametervalueinvalid",
        "validation",
        "validationerror",
    }
)
"""Codes of requests that the service understood and does not take as they are."""

_OF_PLACES = ("topicarn", "queueurl", "queue url", "topic name")
"""What the text of such an error names where it is not about a message."""


def plain_code(code: str) -> str:
    """A code without what differs between the protocols: "AWS.SimpleQueueService.X", "XException", "KMS.X"."""
    name = code.removeprefix("AWS.SimpleQueueService.").removesuffix("Exception")
    return name.replace(".", "").replace("_", "").lower()


def fault(error: BaseException, server: Server, place: str = "") -> Fault:
    """The error of a request about ``place``, "" where it is about none."""
    if isinstance(error, FencepostError):
        return Fault(About.PLACE if isinstance(error, SchemaMissing) else About.SERVICE, error)
    if isinstance(error, TimeoutError):
        return Fault(
            About.SERVICE, DeadlineExceeded(f"{server.place} did not answer in time", remedy=silent(server.one))
        )
    if not isinstance(error, ClientError):
        return Fault(About.SERVICE, fault_of(error, server.place, server.one))
    code, text = plain_code(code_of(error)), told(error, f"{server.place}, {place}" if place else server.place)
    if code in _MESSAGE and not any(name in text.lower() for name in _OF_PLACES):
        return Fault(About.MESSAGE, ParkError(text, remedy="change the message", at_once=True))
    return _of_code(code, text, server, error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _of_code(code: str, text: str, server: Server, status: int = 0) -> Fault:
    if code in _PLACE:
        kind, remedy = _PLACE[code]
        pause_s = DELETED_PAUSE_S if code == "queuedeletedrecently" else 0.0
        return Fault(About.PLACE, kind(text, remedy=remedy), pause_s)
    if code in _SERVICE:
        kind, remedy = _SERVICE[code]
        return Fault(About.SERVICE, kind(text, remedy=remedy.format(one=server.one)))
    if status >= 500:
        return Fault(About.SERVICE, ConnectionLost(text))
    if code.isdigit() and status in {401, 403}:
        return Fault(About.SERVICE, AccessDenied(text, remedy=_CREDENTIALS))
    if not code or code.isdigit():  # the services themselves have names for their errors
        return Fault(About.SERVICE, FixError(text, remedy=_OTHER.format(one=server.one)))
    return Fault(About.PLACE, FixError(text))


def fault_of_entry(entry: Mapping[str, Any], server: Server, what: str) -> Fault:
    """The error of one message of a request, of which others may have been taken."""
    code, said = plain_code(str(entry.get("Code", ""))), " ".join(str(entry.get("Message") or "").split())[:500]
    text = f"{what}: {server.place} refused it: {entry.get('Code')}" + (f": {said}" if said else "")
    if code in _MESSAGE:
        return Fault(About.MESSAGE, ParkError(text, remedy="change the message", at_once=True))
    if code not in _PLACE and code not in _SERVICE and entry.get("SenderFault"):
        return Fault(About.MESSAGE, ParkError(text))
    found = _of_code(code, text, server)
    if found.about is About.PLACE and code in _PLACE:
        return found
    error = found.error if isinstance(found.error, AccessDenied) else Unavailable(text)
    return Fault(About.MESSAGE, error)
