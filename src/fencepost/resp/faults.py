"""What redis-py raises, as one of the four families, and what to do about it."""

from __future__ import annotations

import re
import ssl

from redis import exceptions as r

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    FencepostError,
    FixError,
    Unavailable,
)
from fencepost.faults import UNREACHABLE, Verdict

ERRORS = (r.RedisError, r.RedisClusterException, r.ChildDeadlockedError, OSError, EOFError)
"""Everything that a call can raise when the server, the network or the library is at fault."""

READ_ONLY = "this node is a replica: name the primary, or ask Sentinel for it (redis+sentinel://)"
SILENT = (
    "look at the server and at the network between: it takes connections, or loses them, without an answer; or it is"
    " another kind of server than a Redis"
)
_ANOTHER = "what answers there speaks another protocol than Redis: check host and port in the URL"
_CLOSED = "the connection was made and closed: is it a Redis, and does it want TLS (rediss://)? check host and port"
_CREDENTIALS = 'check user and password in the URL; "${NAME}" there takes the environment variable NAME'
_RIGHTS = (
    "give this user what is missing (ACL SETUSER): docs/redis.md lists what the application and the relay need,"
    " docs/redis-streams.md what it needs to publish"
)
_TLS = "name the authority's certificate in the URL (ssl_ca_certs=FILE), and the host as the server's own one does"

# What a server's answer means by its first word. The library has classes for some of them, and differs by version.
_ANSWERS: dict[str, Verdict] = {
    "ASK": (ConnectionLost, ""),  # the slot is on its way to another node
    "BUSY": (Unavailable, "a script runs for too long on the server: SCRIPT KILL, or wait for its end"),
    "BUSYGROUP": (FixError, ""),
    "CLUSTERDOWN": (Unavailable, "the cluster does not serve these keys now: CLUSTER INFO tells why"),
    "CROSSSLOT": (
        ConfigurationError,
        "all keys of a transaction must share a hash tag: put one into the prefix, for example {shop}:fencepost:",
    ),
    "DENIED": (ConfigurationError, "the server is in protected mode: set a password, or bind it to this address"),
    "EXECABORT": (Unavailable, ""),
    "LOADING": (Unavailable, "wait: the server is loading its data"),
    "MASTERDOWN": (Unavailable, "the replica has lost its primary"),
    "MISCONF": (Unavailable, "the server cannot write its snapshot and takes no writes: look at its log and its disk"),
    "MOVED": (ConnectionLost, ""),
    "NOAUTH": (AccessDenied, _CREDENTIALS),
    "NOPERM": (AccessDenied, _RIGHTS),
    "NOREPLICAS": (Unavailable, "fewer replicas follow than min-replicas-to-write asks for: bring them back"),
    "NOSCRIPT": (ConnectionLost, ""),
    "OOM": (Unavailable, "the server has no memory left: raise maxmemory, or let it hold less"),
    "READONLY": (ConnectionLost, READ_ONLY),
    "TRYAGAIN": (Unavailable, ""),
    "UNKILLABLE": (Unavailable, ""),
    "UNBLOCKED": (ConnectionLost, ""),  # the node became a replica under a blocked call
    "WRONGPASS": (AccessDenied, _CREDENTIALS),
    "WRONGTYPE": (ConfigurationError, "the keys with this prefix are something else: choose another prefix"),
}

_TEXTS: tuple[tuple[re.Pattern[str], Verdict], ...] = (
    (re.compile(r"[Tt]he user executing the script can't"), (AccessDenied, _RIGHTS)),
    (re.compile(r"max number of clients"), (Unavailable, "close connections, or raise the server's maxclients")),
    (
        re.compile(r"unknown (sub)?command"),
        (FixError, "use Redis 7.0, Valkey 7.2, or later"),
    ),
    (re.compile(r"AUTH <password> called without any password"), (AccessDenied, _CREDENTIALS)),
    (re.compile(r"DB index is out of range"), (ConfigurationError, "name one that exists: redis://host:6379/0")),
    (re.compile(r"SELECT is not allowed in cluster mode"), (ConfigurationError, "a cluster has only database 0")),
    (re.compile(r"can't write against a read only replica"), (ConnectionLost, READ_ONLY)),
    (re.compile(r"Protocol [Ee]rror"), (ConnectionLost, _ANOTHER)),
)

_CLASSES: tuple[tuple[type[BaseException], Verdict], ...] = (
    (r.AuthenticationError, (AccessDenied, _CREDENTIALS)),
    (r.AuthorizationError, (AccessDenied, _RIGHTS)),
    (r.AuthenticationWrongNumberOfArgsError, (AccessDenied, _CREDENTIALS)),
    (r.NoPermissionError, (AccessDenied, _RIGHTS)),
    (getattr(r, "ExternalAuthProviderError", r.AuthorizationError), (AccessDenied, "")),  # of later versions
    (r.ReadOnlyError, (ConnectionLost, READ_ONLY)),
    (r.BusyLoadingError, _ANSWERS["LOADING"]),
    (r.OutOfMemoryError, _ANSWERS["OOM"]),
    (r.NoScriptError, _ANSWERS["NOSCRIPT"]),
    (r.MasterDownError, _ANSWERS["MASTERDOWN"]),
    (r.ClusterDownError, _ANSWERS["CLUSTERDOWN"]),
    (r.ClusterCrossSlotError, _ANSWERS["CROSSSLOT"]),
    (r.CrossSlotTransactionError, _ANSWERS["CROSSSLOT"]),
    (r.SlotNotCoveredError, _ANSWERS["CLUSTERDOWN"]),
    (r.TryAgainError, (Unavailable, "")),
    (r.AskError, (ConnectionLost, "")),  # and MovedError
    (r.MaxConnectionsError, (Unavailable, "close connections, or raise the server's maxclients")),
    (r.TimeoutError, (DeadlineExceeded, SILENT)),
    (r.ConnectionError, (ConnectionLost, "")),
    (r.InvalidResponse, (ConnectionLost, "")),
    (r.ModuleError, (FixError, "")),
    (r.DataError, (FixError, "")),
    (r.ExecAbortError, (Unavailable, "")),
    (r.ResponseError, (Unavailable, "")),
    (TimeoutError, (DeadlineExceeded, SILENT)),
    (EOFError, (ConnectionLost, "")),
    (OSError, (ConnectionLost, "")),
)

_ENDED = re.compile(r"Connection closed by server|Connection reset by peer")
_FIRST_WORD = re.compile(r"-?([A-Z]{3,})\b")


def fault_of(error: BaseException, place: str, *, connecting: bool = False) -> FencepostError:
    """The family of an error of a call to the server at ``place``.

    ``connecting``: nothing was asked yet, so that nothing can have been lost: Unavailable instead of ConnectionLost.
    """
    if isinstance(error, FencepostError):
        return error
    kind, remedy = _meaning(error)
    if kind is ConnectionLost and connecting:
        kind, remedy = Unavailable, remedy or (_CLOSED if _ENDED.search(str(error)) else UNREACHABLE)
    return kind(f"{place}: {_line(error)}", remedy=remedy)


def _meaning(error: BaseException) -> Verdict:
    if _is_about_tls(error):
        return ConfigurationError, _TLS
    text = str(error)
    for pattern, meaning in _TEXTS:
        if pattern.search(text):
            return meaning
    first = _FIRST_WORD.match(text)
    if isinstance(error, r.ResponseError) and first and first[1] in _ANSWERS:
        return _ANSWERS[first[1]]
    return next((meaning for cls, meaning in _CLASSES if isinstance(error, cls)), (FixError, ""))


def _is_about_tls(error: BaseException) -> bool:
    """A certificate that is not trusted: waiting does not mend it."""
    chain = (error, error.__cause__, error.__context__)
    return any(isinstance(each, ssl.SSLCertVerificationError) for each in chain)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
