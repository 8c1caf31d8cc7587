"""The stream that takes the messages: made where it may be made, brought up to what is needed, and judged.

Anybody may create it; only an owner changes one that is there, and only while it is ``alone``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from fencepost.brokers.nats.alone import alone
from fencepost.brokers.nats.connection import Connection
from fencepost.brokers.nats.errors import NO_RESPONDERS, STREAM_NAME_IN_USE, STREAM_NOT_FOUND, SUBJECTS_OVERLAP, Refusal
from fencepost.brokers.nats.settings import Settings
from fencepost.brokers.nats.subjects import covers
from fencepost.clock import Clock
from fencepost.errors import Contention, FixError, SchemaMissing
from fencepost.receipt import RECEIPTS_KEPT

ATOMIC_VERSION = (2, 12, 1)
"""The first server with usable atomic batches: 2.12.0 refuses a condition on any but the first message of a batch."""
RECEIPTS_ROOM = 3 * RECEIPTS_KEPT
"""Receipts of a lane are cut back to RECEIPTS_KEPT when there are twice as many; take-overs add some empty ones."""
_COVERED_KEPT_MAX = 10_000


class Stream:
    """The stream as it was found on one connection, or as it would be made. ``find`` comes first."""

    def __init__(self, connection: Connection, settings: Settings, clock: Clock, *, create: bool) -> None:
        self.connection = connection
        self._settings = settings
        self._clock = clock
        self._create = create
        self._is_there = False
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
        """Read the stream's configuration; of one that is missing, what it would be. Raises Refusal, SchemaMissing."""
        try:
            await self._read()
        except Refusal as refusal:
            if refusal.err_code != STREAM_NOT_FOUND:
                raise
            self._would_be()
        self._check()

    async def prepare(self, subjects: Collection[str]) -> None:
        """Create the stream where it is missing, with these subjects; never change it. Raises Refusal, FixError."""
        if not self._is_there:
            await self._make(subjects)
        elif not self._create:
            self._require(subjects)

    async def rehearse(self, subjects: Collection[str]) -> None:
        """Raise FixError where another stream has one of the subjects that ``update`` would add. Changes nothing."""
        if (
            self._create
            and (lacking := self._missing(self._wanted(subjects)))
            and (found := await self._others(lacking))
        ):
            raise self._taken(lacking, found)

    async def update(self, subjects: Collection[str], *, atomic: bool) -> None:
        """Create or change the stream where needed and allowed: for an owner. Raises Refusal, FixError, Contention."""
        if not self._is_there:
            await self._make(subjects)
        wanted = [*subjects, *self._settings.subjects] if self._create else subjects
        if self._create and atomic and not self._config.get("allow_atomic"):
            await self._change(wanted, atomic=True)
        await self.cover(wanted)

    async def cover(self, subjects: Collection[str]) -> None:
        """Make sure that the stream takes these subjects. Raises FixError where it does not and may not be changed."""
        if self._covered.issuperset(subjects):
            return
        if not self._create:
            self._require(subjects)
        elif self._missing(subjects):
            await self._change(subjects, atomic=False)
        if len(self._covered) + len(subjects) > _COVERED_KEPT_MAX:  # topics taken from data must not fill the memory
            self._covered.clear()
        self._covered.update(subjects)

    def _require(self, subjects: Collection[str]) -> None:
        if missing := self._missing(subjects):
            raise SchemaMissing(
                f"the stream {self.name} does not take {_listed(missing)}",
                remedy=f"add the subject to the stream {self.name}, or set create = true",
            )

    def why_not_atomic(self) -> str:
        """Why the stream cannot take fenced, atomic batches, in one line; "" where it can, once it is updated."""
        if self.connection.version < ATOMIC_VERSION:
            have, need = (".".join(map(str, v)) for v in (self.connection.version, ATOMIC_VERSION))
            return f"NATS server {have} has no usable atomic batches: exactly-once needs {need} or newer"
        for setting, why in self._obstacles():
            if why and not (self._create and setting == "allow_atomic"):
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

    def _would_be(self) -> None:
        if not self._create:
            raise SchemaMissing(
                f"there is no stream {self.name}",
                remedy=f"create a stream {self.name} with allow_atomic that takes your topics and fencepost.receipt.>, "
                "or set create = true",
            )
        self._config = {
            "name": self.name,
            "retention": "limits",
            "storage": "file",
            "num_replicas": self._settings.replicas,
            "duplicate_window": int(self._settings.duplicate_window_s * 1_000_000_000),
            "allow_direct": True,
            "allow_atomic": self.connection.version >= ATOMIC_VERSION,
        }

    async def _make(self, subjects: Collection[str]) -> None:
        """Create it. That several do at once is harmless: the server takes one and refuses the others."""
        taken = self._wanted(subjects)
        try:
            self._keep(await self.connection.api(f"STREAM.CREATE.{self.name}", self._config | {"subjects": taken}))
        except Refusal as refusal:
            if refusal.err_code == SUBJECTS_OVERLAP:
                raise self._taken(taken, await self._others(taken)) from refusal
            if refusal.err_code != STREAM_NAME_IN_USE:
                raise
            await self._read()  # another relay was faster
            self._check()

    def _wanted(self, subjects: Collection[str]) -> list[str]:
        """The subjects from the start. Without any, its name is one, as the server has it."""
        wanted = _merged((), [*self._settings.subjects, *subjects])
        return wanted or ([] if self._is_there else [self.name])

    async def _change(self, subjects: Collection[str], *, atomic: bool) -> None:
        """Add what is missing, while nobody else does, and look whether it is there."""
        async with alone(self.connection, self.name, self._clock):
            await self._read()  # somebody else may have added some
            if self._lacks(subjects, atomic=atomic):
                await self._replace(self._changed(subjects, atomic=atomic))
                await self._read()
        if self._lacks(subjects, atomic=atomic):
            raise Contention(f"somebody else changed the stream {self.name} at the same time")

    def _lacks(self, subjects: Collection[str], *, atomic: bool) -> bool:
        return bool(self._missing(subjects)) or (atomic and not self._config.get("allow_atomic"))

    def _changed(self, subjects: Collection[str], *, atomic: bool) -> dict[str, Any]:
        taken = _merged(self._config.get("subjects") or (), self._missing(subjects))
        return self._config | {"subjects": taken} | ({"allow_atomic": True} if atomic else {})

    async def _replace(self, config: dict[str, Any]) -> None:
        """Update. A server that is given a subject of another stream says only that there is one."""
        missing = self._missing(config["subjects"])
        try:
            await self.connection.api(f"STREAM.UPDATE.{self.name}", config)
        except Refusal as refusal:
            if refusal.err_code == SUBJECTS_OVERLAP:
                raise self._taken(missing, await self._others(missing)) from refusal
            raise

    async def _others(self, subjects: Iterable[str]) -> list[tuple[str, str]]:
        """Each of the subjects with each other stream that has it, or a part of it."""
        found: list[tuple[str, str]] = []
        for subject in subjects:
            answer = await self.connection.api("STREAM.NAMES", {"subject": subject})
            found += [(subject, name) for name in answer.get("streams") or () if name != self.name]
        return found

    def _taken(self, subjects: Sequence[str], found: Sequence[tuple[str, str]]) -> FixError:
        said = "; ".join(f"subject {subject!r} belongs to the stream {name}" for subject, name in found)
        return FixError(
            f"the stream {self.name} cannot take {_listed(subjects)}: {said or 'another stream takes some of them'}",
            remedy="set stream to that one, remove the subject there, or set subject_prefix",
        )

    def _keep(self, answer: dict[str, Any]) -> None:
        self._config = answer["config"]
        self._is_there = True
        self._covered.clear()


def _merged(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Both, without those that one of ``new`` covers: a server refuses subjects that overlap. There may be many old."""
    unique = list(dict.fromkeys(new))
    patterns = [s for s in unique if "*" in s or ">" in s]
    return [s for s in dict.fromkeys([*old, *unique]) if not any(covers(p, s) for p in patterns if p != s)]


def _listed(subjects: Sequence[str]) -> str:
    shown = ", ".join(repr(subject) for subject in subjects[:5])
    return shown if len(subjects) <= 5 else f"{shown} and {len(subjects) - 5} more"
