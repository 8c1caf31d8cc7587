"""The plug-in's own settings: what they are called, what they mean, and their checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fencepost.brokers.nats.subjects import shape_fault, subject_fault
from fencepost.errors import ConfigurationError
from fencepost.servers import TlsSettings
from fencepost.settings import path, setting, texts

_STREAM_NAME_FORBIDDEN = set(">*. /\\\t\r\n")
BATCH_MAX = 999
"""The server takes 1,000 messages per atomic batch unless it is told otherwise; the receipt is one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(TlsSettings):
    """What can be set in ``[broker]`` besides the URL.

    ``stream`` takes the messages. ``subjects`` are taken by it from the start ("orders.>"); the subject of any other
    topic is added when it is first seen. ``subject_prefix`` stands before each topic. ``replicas`` and
    ``duplicate_window_s`` count when the stream is created. ``batch_max`` is one less than the server's own limit.
    ``domain`` is a JetStream domain, ``inbox_prefix`` where answers are received. ``credentials``, ``nkey_seed`` and
    the TLS settings are paths of files.
    """

    title = "NATS"

    stream: str = "FENCEPOST"
    subjects: tuple[str, ...] = setting((), texts('a list of texts such as ["orders.>", "payments"]'))
    subject_prefix: str = ""
    replicas: int = 1
    duplicate_window_s: float = 120.0
    batch_max: int = BATCH_MAX
    domain: str = ""
    inbox_prefix: str = "_INBOX"
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    credentials: str = setting("", path)
    nkey_seed: str = setting("", path)

    @property
    def api(self) -> str:
        """The first part of the subjects of the JetStream API."""
        return f"$JS.{self.domain}.API" if self.domain else "$JS.API"

    def unfit(self) -> Iterator[tuple[str, str | ConfigurationError]]:
        """See Settings."""
        if not self.stream or _STREAM_NAME_FORBIDDEN & set(self.stream):
            yield "stream", "a name without blanks, dots, slashes, * and >"
        for subject in self.subjects:
            if fault := subject_fault(subject, wildcards=True):
                yield "subjects", f"a list of subjects; {subject!r} {fault}"
        if self.subject_prefix and (fault := subject_fault(f"{self.subject_prefix}topic")):
            yield "subject_prefix", f'the beginning of a subject ("shop."); this one {fault}'
        if fault := shape_fault(self.inbox_prefix):
            yield "inbox_prefix", f'the beginning of a subject ("_INBOX"); this one {fault}'
        yield from self._unfit_logins()
        yield from TlsSettings.unfit(self)

    def _unfit_logins(self) -> Iterator[tuple[str, ConfigurationError]]:
        ways = [name for name in ("user", "token", "credentials", "nkey_seed") if getattr(self, name)]
        for name in ways[1:]:
            what = f"the NATS settings {ways[0]} and {name} are two ways to log in"
            yield name, ConfigurationError(what, remedy="keep one of them")
        if self.password and not self.user:
            yield (
                "password",
                ConfigurationError("the NATS setting password is of no use without user", remedy="set user"),
            )
