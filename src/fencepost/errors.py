"""Every error of Fencepost, in four families named after what the caller should do.

::

    FencepostError
    |-- FixError            change the program, the configuration or the server; trying again does not help
    |   |-- MessageRefused      the message cannot be added as it is (topic, headers, size, ...)
    |   |-- NoTransaction       a message was added outside a transaction
    |   |-- VersionConflict     the caller's own version is not newer than the entity's last one
    |   |-- ConfigurationError  a key, a value or a combination that cannot work
    |   |   |-- UnknownPlugin       no plug-in of that name
    |   |   `-- MissingExtra        the plug-in's library is not installed
    |   |-- SchemaMissing       a table, a stream or a topic does not exist and may not be created
    |   |-- AccessDenied        wrong credentials or not enough rights
    |   `-- GuaranteeUnavailable the broker cannot give the delivery that was asked for
    |-- RetryError          wait and try again; nothing is wrong with the message
    |   |-- Unavailable         the server cannot be reached, or says that it cannot serve now
    |   |-- ConnectionLost      an open session ended; what was in flight may or may not have happened
    |   |-- DeadlineExceeded    no answer in time
    |   `-- Contention          a deadlock, a serialization failure, a lock timeout
    |-- ParkError           this one message cannot be published; set it aside, the others go on
    `-- StopError           somebody else is in charge: keep nothing, stop at once
        |-- Fenced              the broker refused an owner that has been replaced
        `-- LeaseLost           the lease ended or belongs to another owner

A plug-in maps every error of its client library to one of the families; the relay looks at the family only.
"""

from __future__ import annotations

from collections.abc import Sequence


class FencepostError(Exception):
    """The root. ``what`` says what happened and where; ``remedy`` says what to do about it ("" where nothing is
    known).
    """

    def __init__(self, what: str, *, remedy: str = "") -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(f"{what}: {remedy}" if remedy else what)


class FixError(FencepostError):
    """Something must be changed by a person."""


def raise_together(errors: Sequence[FixError], place: str) -> None:
    """Raise several as one, so that they can be mended in one go: of their class, where they share it. None: nothing.

    ``place`` is where they all happened; it is said once.
    """
    if not errors:
        return
    whats = [errors[0].what, *(error.what.removeprefix(place).lstrip(": ") for error in errors[1:])]
    remedies = dict.fromkeys(error.remedy for error in errors if error.remedy)
    kinds = {type(error) for error in errors}
    raise (kinds.pop() if len(kinds) == 1 else FixError)("; ".join(whats), remedy="; ".join(remedies))


class MessageRefused(FixError):
    """The message cannot be added as it is; nothing was written."""


class NoTransaction(FixError):
    """A message was added outside a transaction, where it could not share the fate of the business data."""


class VersionConflict(FixError):
    """The version that the caller gave is not newer than the entity's last one: a lost race, or a programming error."""


class ConfigurationError(FixError):
    """A configuration key, a value, or a combination of them cannot work."""


class UnknownPlugin(ConfigurationError):
    """No plug-in has this name."""


class MissingExtra(ConfigurationError):
    """The plug-in's client library is not installed."""


class SchemaMissing(FixError):
    """A table, a stream or a topic is missing and may not be created by itself."""


class AccessDenied(FixError):
    """Wrong credentials, or not enough rights."""


class GuaranteeUnavailable(FixError):
    """The broker cannot give the delivery that was asked for."""


class RetryError(FencepostError):
    """A fault that passes: wait and try again."""


class Unavailable(RetryError):
    """The server cannot be reached, or says that it cannot serve now."""


class ConnectionLost(RetryError):
    """An open session has ended. What was in flight may or may not have happened."""


class DeadlineExceeded(RetryError):
    """No answer in time. What was asked may or may not have happened."""


class Contention(RetryError):
    """A deadlock, a serialization failure or a lock timeout: the statement had no effect."""


class ParkError(FencepostError):
    """One message cannot be published.

    ``at_once`` is True where trying again cannot help (too large, cannot be encoded): it is parked without further
    attempts.
    """

    def __init__(self, what: str, *, remedy: str = "", at_once: bool = False) -> None:
        super().__init__(what, remedy=remedy)
        self.at_once = at_once


class StopError(FencepostError):
    """Somebody else is in charge now."""


class Fenced(StopError):
    """The broker refused an owner that has been replaced."""


class LeaseLost(StopError):
    """The lease has ended, or belongs to another owner."""
