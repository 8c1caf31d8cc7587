"""What tables of errors have in common: a client library's errors by name, and what each means in the four families."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.errors import FencepostError, ParkError

Verdict = tuple[type[FencepostError], str]
"""A family, and the remedy ("" where nothing is known)."""

UNREACHABLE = "is the server running? check host and port in the URL, and that nothing between blocks them"
CERTIFICATE = "check tls_ca, tls_cert and tls_key, and the name in the server's certificate"


def verdict_of(error: BaseException, table: Mapping[str, Verdict]) -> Verdict | None:
    """What a table says of an error, by its class or the nearest one above it that is there; None where none is.

    Classes are named, because not every version of a library has each of them.
    """
    return next((table[known.__name__] for known in type(error).__mro__ if known.__name__ in table), None)


def as_error(verdict: Verdict, text: str) -> FencepostError:
    """The error to raise or to hand back. A message that is to blame itself is parked at once."""
    family, remedy = verdict
    if issubclass(family, ParkError):
        return family(text, remedy=remedy, at_once=True)
    return family(text, remedy=remedy)
