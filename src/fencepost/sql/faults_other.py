"""What Oracle's error numbers and the SQLSTATEs of ODBC mean, whichever of their libraries raises them."""

from __future__ import annotations

import re

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
from fencepost.sql.faults_mariadb import APPLY

_ORACLE: dict[type[FencepostError], tuple[int, ...]] = {
    AccessDenied: (1017, 1031, 1045, 1950, 28000, 28001, 28009),
    ConfigurationError: (12154,),
    ConnectionLost: (28, 1012, 2396, 3113, 3114, 3135, 12152, 12170, 12537, 12547, 12571),
    Contention: (54, 60, 1013, 4020, 4021, 8177, 30006),
    FixError: (1, 1400, 1438, 1461, 2290, 2291, 12899, 38913),
    SchemaMissing: (904, 942, 2289),
    Unavailable: (18, 20, 1033, 1034, 1089, 1536, 1653, 1654, 12505, 12514, 12516, 12528, 12541, 16000),
}
_OF_ORACLE = {code: kind for kind, codes in _ORACLE.items() for code in codes}

_ODBC: dict[str, type[FencepostError]] = {
    "08": ConnectionLost,
    "08001": Unavailable,
    "08004": Unavailable,
    "22": FixError,
    "23": FixError,
    "28": AccessDenied,
    "40": Contention,
    "42": FixError,
    "42S02": SchemaMissing,
    "42S22": SchemaMissing,
    "HYT": Contention,
    "HYT01": ConnectionLost,
    "IM": ConfigurationError,  # no such ODBC driver
}
_OF_MSSQL: dict[int, type[FencepostError]] = {
    208: SchemaMissing,
    229: AccessDenied,
    230: AccessDenied,
    1088: AccessDenied,  # also where IDENTITY_INSERT needs a right
    1205: Contention,
    1222: Contention,
    3906: Unavailable,  # read-only
    3960: Contention,
    4060: ConfigurationError,  # no such database
    9002: Unavailable,  # the log is full
    18456: AccessDenied,
}
_NATIVE = re.compile(r"\((\d+)\)")
_DROPPED = re.compile(r"DPY-(?:4011|1001)\b")
_UNREACHABLE = re.compile(r"DPY-60(?:00|01|03|05)\b")
_NOBODY = re.compile(r"DPY-6005\b|ORA-12541\b|\b08001\b")

_REMEDIES: dict[type[FencepostError], str] = {
    AccessDenied: "check user and password in the URL, and grant what is missing: docs/other-sql.md lists the rights",
    SchemaMissing: APPLY,
}


def kind_of(said: BaseException) -> type[FencepostError] | None:
    """The family of an error of oracledb or pyodbc; None for one of any other library."""
    library = type(said).__module__.partition(".")[0]
    if library == "oracledb":
        return _of_oracle(said)
    return _of_odbc(said) if library == "pyodbc" else None


def remedy_of(said: BaseException, unreachable: str) -> str:
    """What a person can do about it; "" where nothing is known."""
    kind = kind_of(said)
    if kind is Unavailable and _NOBODY.search(str(said)):
        return unreachable
    return "" if kind is None else _REMEDIES.get(kind, "")


def _of_oracle(said: BaseException) -> type[FencepostError]:
    text = str(said)
    if _DROPPED.search(text):
        return ConnectionLost
    if _UNREACHABLE.search(text):
        return Unavailable
    code = getattr(said.args[0], "code", 0) if said.args else 0
    return _OF_ORACLE.get(code, Unavailable)


def _of_odbc(said: BaseException) -> type[FencepostError]:
    state = str(said.args[0]) if said.args else ""
    for number in _NATIVE.findall(str(said)):
        if int(number) in _OF_MSSQL:
            return _OF_MSSQL[int(number)]
    return _ODBC.get(state) or _ODBC.get(state[:3]) or _ODBC.get(state[:2], Unavailable)
