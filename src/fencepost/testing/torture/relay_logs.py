"""What the relays say in their logs: who took over when, and how often each event happened."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_OTHER_LINES = 50


@dataclass(frozen=True, slots=True)
class TakeOver:
    """A relay has taken over at the broker; ``at`` is to the millisecond."""

    at: datetime
    pid: int
    term: int


class RelayLogs:
    """Reads on where it stopped. ``logs`` maps pids to files and may grow."""

    def __init__(self, logs: Mapping[int, Path]) -> None:
        self._logs = logs
        self._offsets: dict[Path, int] = {}
        self.take_overs: list[TakeOver] = []
        self.told: Counter[str] = Counter()
        self.grave: list[str] = []
        """The first lines of what must not happen."""
        self.other_lines: list[str] = []
        """The first lines that are not of the log: what a library says by itself."""

    def look(self) -> None:
        """Read what is new."""
        for pid, log in list(self._logs.items()):
            for line in self._new_lines(log):
                self._read(pid, line)

    def first_after(self, moment: datetime, not_pid: int) -> TakeOver | None:
        """The first take-over after a moment by another relay; None where there was none yet."""
        found = [t for t in reversed(self.take_overs[-50:]) if t.at > moment and t.pid != not_pid]
        return min(found, key=lambda t: t.at, default=None)

    def _new_lines(self, log: Path) -> list[str]:
        offset = self._offsets.get(log, 0)
        if log.stat().st_size <= offset:
            return []
        with log.open("rb") as opened:
            opened.seek(offset)
            whole = opened.read().rpartition(b"\n")[0]
        if not whole:
            return []
        self._offsets[log] = offset + len(whole) + 1
        return whole.decode(errors="replace").splitlines()

    def _read(self, pid: int, line: str) -> None:
        try:
            record = json.loads(line)
        except ValueError:
            self.told["other lines"] += 1
            self.other_lines += [line[:500]] if len(self.other_lines) < _OTHER_LINES else []
            return
        event = str(record.get("event"))
        self.told[event] += 1
        if event == "taken_over":
            self.take_overs.append(TakeOver(datetime.fromisoformat(record["ts"]), pid, record["token"]))
        if event in ("relay_failed", "message_parked") and len(self.grave) < 5:
            self.grave.append(line[:2000])
