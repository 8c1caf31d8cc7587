"""What is kept where something is wrong: the relays' logs, what was committed, and what was read, in order."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from fencepost.history import Entry
from fencepost.testing.torture.records import TortureResult


def kept(
    result: TortureResult, logs: Iterable[Path], committed: Sequence[Entry], streams: Sequence[Sequence[Entry]]
) -> TortureResult:
    """Copy it to a folder that stays; the result with that folder's name."""
    parent = None if result.options.report is None else result.options.report
    if parent is not None:
        Path(parent).mkdir(parents=True, exist_ok=True)
    target = Path(tempfile.mkdtemp(prefix="evidence-" if parent else "fencepost-torture-evidence-", dir=parent))
    for log in logs:
        shutil.copy(log, target)
    _write(target / "committed.jsonl", committed)
    for number, stream in enumerate(streams):
        _write(target / f"read-{number}.jsonl", stream)
    return dataclasses.replace(result, evidence=str(target))


def _write(file: Path, entries: Iterable[Entry]) -> None:
    with file.open("w", encoding="utf-8") as opened:
        opened.writelines(f"{json.dumps(entry._asdict())}\n" for entry in entries)
