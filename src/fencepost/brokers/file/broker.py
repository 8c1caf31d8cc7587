"""The broker: what is written in a thread of its own, so that a slow disk or reader does not stop the relay."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fencepost.brokers.file.address import Address
from fencepost.brokers.file.appending import append
from fencepost.brokers.file.faults import from_system
from fencepost.brokers.file.lines import PREFIX, Lines
from fencepost.brokers.file.patience import Patience
from fencepost.brokers.file.pipe import STDOUT
from fencepost.brokers.file.places import check_place
from fencepost.brokers.file.settings import Settings
from fencepost.envelope import Format
from fencepost.errors import FencepostError, ParkError, SchemaMissing, Unavailable
from fencepost.handoffs import PlainHandoff
from fencepost.message import Entity, Stored, entity_of
from fencepost.ports import BrokerOptions, Capabilities, Delivery, Failure, Lane, Outcome, Term

_FILE = "a file has no fence, and recognises no repeated message"
_STDOUT = "standard output has no fence, and recognises no repeated message"

PATIENCE_S = 1.0
"""How long a batch waits for a reader of standard output, or for whoever has locked a file, at most."""

Pair = tuple[Stored, bytes]
Written = tuple[list[Stored], list[Failure]]


class FileBroker:
    """See fencepost.ports.Broker."""

    def __init__(self, options: BrokerOptions) -> None:
        """Raises ConfigurationError."""
        self._options, self._settings = options, Settings.read(options.settings)
        self._address = Address.of(options.url)
        usual = Format.CLOUDEVENTS_STRUCTURED
        self._lines = Lines(options.envelope(PREFIX, usual), options.form or usual, self._settings.line_bytes_max)
        longest_s = options.publish_timeout_s
        self._patience_s = PATIENCE_S if longest_s is None else min(PATIENCE_S, longest_s / 2)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fencepost-file")
        self._handoffs: set[PlainHandoff] = set()

    async def open(self) -> Capabilities:
        """See Broker. Raises SchemaMissing where a folder is missing that may not be created."""
        folder = self._folder()
        if folder is not None and not self._options.create and not await asyncio.to_thread(folder.is_dir):
            raise SchemaMissing(f"there is no folder {folder}", remedy="create it, or set create = true")
        return Capabilities(
            delivery=Delivery.PLAIN,
            reason=_STDOUT if self._address.is_stdout else _FILE,
            message_bytes_max=self._settings.line_bytes_max,
        )

    async def rehearse(self, lane: Lane) -> None:
        """Raise FixError for what can be told of the place without writing."""
        if self._address.is_stdout:
            return
        template = self._address.template
        try:
            await asyncio.to_thread(check_place, template, create=self._options.create)
        except OSError as error:
            raise from_system(error, f"{template} cannot be looked at") from error

    async def prepare(self, lane: Lane, topics: Collection[str] = ()) -> None:
        """See Broker. There is nothing to prepare."""

    async def take_over(self, lane: Lane, term: Term) -> PlainHandoff:
        """See Broker. Nobody is fenced: there is nothing in a file that could."""
        handoff = PlainHandoff(lane, self._options.timeout_s, self._write, self._handoffs.discard)
        self._handoffs.add(handoff)
        return handoff

    async def close(self) -> None:
        """See Broker."""
        for handoff in tuple(self._handoffs):
            await handoff.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _write(self, batch: Sequence[Stored]) -> Outcome:
        """Publish a batch: every file's lines in one write. What is being written may be written to its end."""
        files, failed = self._encoded(batch)
        patience = Patience(self._patience_s, self._options.clock.monotonic)
        work = self._to_stdout if self._address.is_stdout else self._to_files
        try:
            running = asyncio.get_running_loop().run_in_executor(self._thread, work, files, patience)
            published, troubles = await running
        finally:
            patience.end()
        if self._address.is_one or self._address.is_stdout:
            for trouble in troubles:
                if not published and not failed:
                    raise trouble.error
        else:
            failed += troubles
        done = {message.position for message in published}
        return Outcome([message for message in batch if message.position in done], failed)

    def _folder(self) -> Path | None:
        """The folder that must be there, None where it depends on the topic."""
        folder = Path(self._address.template).parent
        return None if self._address.is_stdout or "{" in str(folder) else folder

    def _encoded(self, batch: Sequence[Stored]) -> tuple[Mapping[str, list[Pair]], list[Failure]]:
        """The lines of each file; and what can have no line, or no file."""
        files: dict[str, list[Pair]] = {}
        failed: list[Failure] = []
        bad: set[Entity] = set()
        for message in batch:
            if entity_of(message) in bad:
                continue  # nothing of a key goes past one that failed
            try:
                pair = (message, self._lines.line(message))
                files.setdefault(self._address.path(message.topic), []).append(pair)
            except ParkError as error:
                failed.append(Failure(message, error))
                bad.add(entity_of(message))
        return files, failed

    def _to_files(self, files: Mapping[str, Sequence[Pair]], patience: Patience) -> Written:
        published: list[Stored] = []
        troubles: list[Failure] = []
        for path, pairs in files.items():
            data = b"".join([line for _, line in pairs])
            try:
                append(path, data, patience, create=self._options.create, fsync=self._settings.fsync)
                published += [message for message, _ in pairs]
            except OSError as error:
                troubles.append(_held(pairs, from_system(error, f"{path} cannot be written")))
            except FencepostError as error:
                troubles.append(_held(pairs, error))
        return published, troubles

    def _to_stdout(self, files: Mapping[str, Sequence[Pair]], patience: Patience) -> Written:
        pairs = [pair for each in files.values() for pair in each]
        try:
            count = STDOUT.write(b"".join([line for _, line in pairs]), patience)
        except OSError as error:
            return [], [_held(pairs, from_system(error, "standard output cannot be written"))]
        if pairs and not count:
            remedy = "see what its reader does: the relay waits for it"
            return [], [_held(pairs, Unavailable("nobody reads standard output", remedy=remedy))]
        return [message for message, _ in pairs[:count]], []


def _held(pairs: Sequence[Pair], error: FencepostError) -> Failure:
    """A file in trouble keeps its topic back, and no other one's."""
    return Failure(pairs[0][0], error, whole_topic=True)
