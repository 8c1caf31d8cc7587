"""What the error numbers of MariaDB and MySQL mean, whichever library raises them: its first argument is the number."""

from __future__ import annotations

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    Contention,
    FencepostError,
    FixError,
    SchemaMissing,
    Unavailable,
)

_LIBRARIES = {"MySQLdb", "asyncmy", "pymysql"}

_KINDS: dict[type[FencepostError], tuple[int, ...]] = {
    AccessDenied: (1044, 1045, 1095, 1129, 1130, 1131, 1142, 1143, 1227, 1370, 1410, 1698, 1820, 1862, 3118, 4151),
    ConfigurationError: (1049, 1251, 2026, 2049, 2059, 2061),
    ConnectionLost: (
        *(1053, 1077, 1078, 1079, 1080, 1152, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1184, 1927),
        *(2006, 2013, 2014, 2027, 2048, 2055, 3169, 4031),
    ),
    Contention: (1020, 1205, 1213, 1317, 1412, 1479, 1613, 1614, 1969, 3024, 3058, 3101, 3132, 3572, 4025),
    FixError: (1022, 1048, 1062, 1064, 1153, 1235, 1264, 1265, 1366, 1406, 1451, 1452, 1665, 1785, 3950),
    SchemaMissing: (1054, 1146, 1176, 1932),
    Unavailable: (
        *(1021, 1023, 1030, 1037, 1038, 1040, 1041, 1047, 1114, 1135, 1180, 1203, 1226),
        *(1290, 1792, 1836, 2001, 2002, 2003, 2004, 2005, 2012),
    ),
}
_KIND_OF = {code: kind for kind, codes in _KINDS.items() for code in codes}

_OTHERWISE: dict[str, type[FencepostError]] = {
    "DataError": FixError,
    "IntegrityError": FixError,
    "InterfaceError": ConnectionLost,  # the connection is closed, or cannot be used any more
    "NotSupportedError": FixError,
    "ProgrammingError": FixError,
}
"""By the class, where the number is not known. All others: the server says that something is wrong with it now."""

APPLY = "run `fencepost schema apply`"
READ_ONLY = (
    "the server is a replica, or is closed for writers (read_only): name the primary in the URL, or SET GLOBAL"
    " read_only = OFF there"
)
_RIGHTS = "docs/mariadb.md lists the rights of the application and of the relay"
_USER = 'check user and password in the URL; "${NAME}" there takes the environment variable NAME'
_CONNECTIONS = (
    "close connections, or raise max_connections or the user's MAX_USER_CONNECTIONS: a relay that leads has three, one"
    " that stands by has one"
)
TLS = "look at the server's TLS settings, and at ssl_ca, ssl_cert and ssl_key in the URL"

_REMEDIES: dict[int, str] = {
    1021: "make room on the server's disk",
    1040: _CONNECTIONS,
    1044: f"grant this user the database, or name another one in the URL; {_RIGHTS}",
    1045: _USER,
    1049: "create the database (CREATE DATABASE), or name another one in the URL",
    1054: APPLY,
    1114: "make room on the server's disk",
    1129: "FLUSH HOSTS on the server, which has counted too many failed connections from this host",
    1130: "let the user connect from this host (CREATE USER 'name'@'host'), or name another user in the URL",
    1142: f"grant this user what is missing, or name another user in the URL; {_RIGHTS}",
    1143: f"grant this user what is missing, or name another user in the URL; {_RIGHTS}",
    1146: APPLY,
    1153: "raise the server's max_allowed_packet, or refuse such messages with a smaller max_bytes of the Outbox",
    1176: APPLY,
    1203: _CONNECTIONS,
    1226: _CONNECTIONS,
    1290: READ_ONLY,
    1665: "SET GLOBAL binlog_format = ROW (or MIXED): a STATEMENT binary log cannot hold what READ COMMITTED writes",
    1698: _USER,
    1792: READ_ONLY,
    1836: READ_ONLY,
    1932: "restore the table from a backup",
    2026: TLS,
    2059: "give the user another authentication plugin, or use a client library that knows this one",
}


def code_of(said: BaseException) -> int | None:
    """The server's or the library's number of an error; None where it is not one of theirs. 0: it has no number."""
    if type(said).__module__.partition(".")[0] not in _LIBRARIES:
        return None
    code = said.args[0] if said.args else 0
    return code if isinstance(code, int) else 0


def is_garbled(said: BaseException) -> bool:
    """Whether what was received cannot come from a MariaDB or MySQL."""
    return "Packet sequence number wrong" in str(said)


def kind_of(said: BaseException, code: int) -> type[FencepostError]:
    """The family of an error with this number."""
    if code == 1290 and "read" not in str(said):  # another option than read_only prevents it
        return FixError
    return _KIND_OF.get(code) or _OTHERWISE.get(type(said).__name__, Unavailable)


def remedy_of(code: int, unreachable: str) -> str:
    """What a person can do about it; "" where nothing is known."""
    return unreachable if code in {2002, 2003, 2005} else _REMEDIES.get(code, "")
