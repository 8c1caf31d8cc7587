"""The stream that takes the messages: made where it may be made, brought up to what is needed, and judged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from fencepost.brokers.nats.connection import Connection
from fencepost.brokers.nats.errors import NO_RESPONDERS, STREAM_NAME_IN_USE, STREAM_NOT_FOUND, SUBJECTS_OVERLAP, Refusal
from fencepost.brokers.nats.settings import Settings
from fencepost.brokers.nats.subjects import covers
from fencepost.errors import Contention, FixError, SchemaMissing
from fencepost.receipt import RECEIPTS_KEPT

ATOMIC_VERSION = (2, 12, 1)
"""The first server with usable atomic batches: 2.12.0 refuses a condition on any but the first message of a batch."""
RECEIPTS_ROOM = 3 * RECEIPTS_KEPT
"""Receipts of a lane are cut back to RECEIPTS_KEPT when there are twice as many; take-overs add some empty ones."""
_TRIES = 5
_COVERED_KEPT_MAX = 10_000


class Stream:
    """The stream as it was found on one connection. Made by ``find``."""

    def __init__(self, connection: Connection, settings: Settings, *, create: bool) -> None:
        self.connection = connection
        self._settings = settings
        self._create = create
        self._config: dict[str, Any] = {}
        self._covered: set[str] = set()

    @property
    def name(self) -> str:
        """The stream's name."""
        return self._settings.stream

    @property
    def message_bytes_max(self) -> int:
        """The largest message, headers and payload, in bytes."""
        own, server = int(self._config.get("max_msg_size", -1)), self.connection.client.max_payload
        return server if own < 0 else min(own, server)

    async def find(self) -> None:
        """Read the stream's configuration; make or change the stream where needed and allowed. Raises Refusal."""
        for _ in range(_TRIES):
            try:
                await self._read()
                break
            except Refusal as refusal:
                if refusal.err_code != STREAM_NOT_FOUND:
                    raise
            await self._make()
        else:
            raise Contention(f"the stream {self.name} appears and disappears")
        self._check()
        if self._create:
            await self._allow_batches()
            await self.cover(self._settings.subjects)

    async def cover(self, subjects: Collection[str]) -> None:
        """Make sure that the stream takes these subjects. Raises FixError where it does not and may not be changed."""
        if self._covered.issuperset(subjects):
            return
        missing = self._missing(subjects)
        if missing and self._create:
            await self._read()  # somebody else may have added some
            missing = self._missing(subjects)
            if missing:
                await self._add(missing)
        elif missing:
            raise SchemaMissing(
                f"the stream {self.name} does not take {_listed(missing)}",
                remedy=f"add the subject to the stream {self.name}, or set create = true",
            )
        if len(self._covered) + len(subjects) > _COVERED_KEPT_MAX:  # topics taken from data must not fill the memory
            self._covered.clear()
        self._covered.update(subjects)

    def why_not_atomic(self) -> str:
        """Why the stream cannot take fenced, atomic batches, in one line; "" where it can."""
        if self.connection.version < ATOMIC_VERSION:
            have, need = (".".join(map(str, v)) for v in (self.connection.version, ATOMIC_VERSION))
            return f"NATS server {have} has no usable atomic batches: exactly-once needs {need} or newer"
        for setting, why in self._obstacles():
            if why:
                return f"{setting} of stream {self.name} {why}"
        return ""

    def _obstacles(self) -> Iterable[tuple[str, str]]:
        config = self._config
        yield "retention", "" if self._keeps() else 'is not "limits", so receipts would vanish: use another stream'
        for setting in ("deny_purge", "deny_delete"):
            yield setting, "keeps old receipts from being removed: use another stream" if config.get(setting) else ""
        most = int(config.get("max_msgs_per_subject", -1))
        yield (
            "max_msgs_per_subject",
            f"is below {RECEIPTS_ROOM}, too few for receipts" if 0 < most < RECEIPTS_ROOM else "",
        )
        yield (
            "subject_transform",
            "would move the receipts: use another stream" if config.get("subject_transform") else "",
        )
        is_async = config.get("persist_mode") == "async"
        yield "persist_mode", "is async, which excludes atomic batches" if is_async else ""
        yield "allow_atomic", "" if config.get("allow_atomic") else "is false: set it to true"

    def _keeps(self) -> bool:
        return bool(self._config.get("retention", "limits") == "limits")

    def _check(self) -> None:
        for setting in ("mirror", "sealed", "no_ack"):
            if self._config.get(setting):
                raise FixError(
                    f"the stream {self.name} cannot be published to: {setting} is set", remedy="use another stream"
                )

    def _missing(self, subjects: Iterable[str]) -> list[str]:
        taken: Sequence[str] = self._config.get("subjects") or ()
        return [s for s in subjects if not any(covers(pattern, s) for pattern in taken)]

    # -- asking the server ---------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            self._keep(await self.connection.api(f"STREAM.INFO.{self.name}"))
        except Refusal as refusal:
            if refusal.err_code != NO_RESPONDERS:
                raise
            raise FixError(
                "the NATS server does not answer for JetStream: it is not enabled, for this account or at all",
                remedy="start the server with JetStream (nats-server -js), check the setting domain",
            ) from refusal

    async def _make(self) -> None:
        if not self._create:
            raise SchemaMissing(
                f"there is no stream {self.name}",
                remedy=f"create a stream {self.name} with allow_atomic that takes your topics and fencepost.receipt.>, "
                "or set create = true",
            )
        config = {
            "name": self.name,
            "subjects": list(self._settings.subjects) or None,  # none: the server takes the stream's name for one
            "retention": "limits",
            "storage": "file",
            "num_replicas": self._settings.replicas,
            "duplicate_window": int(self._settings.duplicate_window_s * 1_000_000_000),
            "allow_direct": True,
            "allow_atomic": self.connection.version >= ATOMIC_VERSION,
        }
        try:
            await self._change("CREATE", config)
        except Refusal as refusal:
            if refusal.err_code != STREAM_NAME_IN_USE:  # another relay was faster
                raise

    async def _allow_batches(self) -> None:
        """Set allow_atomic where that is all that is missing."""
        obstacles = [setting for setting, why in self._obstacles() if why]
        if obstacles == ["allow_atomic"] and self.connection.version >= ATOMIC_VERSION:
            await self._change("UPDATE", self._config | {"allow_atomic": True})

    async def _add(self, subjects: Sequence[str]) -> None:
        kept = [old for old in self._config.get("subjects") or () if not any(covers(new, old) for new in subjects)]
        try:
            await self._change("UPDATE", self._config | {"subjects": [*kept, *dict.fromkeys(subjects)]})
        except Refusal as refusal:
            if refusal.err_code == SUBJECTS_OVERLAP:
                raise await self._taken(subjects) from refusal
            raise

    async def _change(self, how: str, config: dict[str, Any]) -> None:
        """Create or update. A server that is given a subject of another stream says only that there is one."""
        try:
            self._keep(await self.connection.api(f"STREAM.{how}.{self.name}", config))
        except Refusal as refusal:
            if refusal.err_code == SUBJECTS_OVERLAP and how == "CREATE":
                raise await self._taken(config["subjects"] or [self.name]) from refusal
            raise

    async def _taken(self, subjects: Sequence[str]) -> FixError:
        found: list[tuple[str, str]] = []
        for subject in subjects:
            answer = await self.connection.api("STREAM.NAMES", {"subject": subject})
            found += [(subject, name) for name in answer.get("streams") or () if name != self.name]
        said = "; ".join(f"subject {subject!r} belongs to the stream {name}" for subject, name in found)
        return FixError(
            f"the stream {self.name} cannot take {_listed(subjects)}: {said or 'another stream takes some of them'}",
            remedy="set stream to that one, remove the subject there, or set subject_prefix",
        )

    def _keep(self, answer: dict[str, Any]) -> None:
        self._config = answer["config"]
        self._covered.clear()


def _listed(subjects: Sequence[str]) -> str:
    shown = ", ".join(repr(subject) for subject in subjects[:5])
    return shown if len(subjects) <= 5 else f"{shown} and {len(subjects) - 5} more"
