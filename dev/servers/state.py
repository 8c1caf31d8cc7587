"""What is remembered between two calls: for each server its ports, its data folder and its processes.

It is one JSON file in the tree that names the tree it belongs to: a copy of the tree does not own the servers of the
original.
"""

import json
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from servers.process import Process, is_running


@dataclass
class Place:
    """Where one server lives: its folder, its ports by purpose, its processes in the order they were started."""

    folder: Path
    ports: dict[str, int] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    ready: bool = False

    @property
    def log(self) -> Path:
        """The file that the server's output goes to."""
        return self.folder / "server.log"

    def alive(self) -> list[Process]:
        """Those of its processes that still run."""
        return [process for process in self.processes if is_running(process)]

    def runs(self) -> bool:
        """Whether it was started and none of its processes has ended since."""
        return bool(self.processes) and len(self.alive()) == len(self.processes)

    def serves(self) -> bool:
        """Whether it runs and has answered once."""
        return self.ready and self.runs()


class State:
    """The remembered places of one tree. Several threads may save at once; a reader never sees half a file."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree.resolve()
        self.folder = self.tree / ".services"
        self.path = self.folder / "state.json"
        self._saving = threading.Lock()
        self.places = self._load()

    def _load(self) -> dict[str, Place]:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        if content.get("tree") != str(self.tree):
            return {}
        return {name: _place(fields) for name, fields in content["places"].items()}

    def save(self) -> None:
        """Write everything down, whole or not at all."""
        with self._saving:
            places = {name: {**asdict(place), "folder": str(place.folder)} for name, place in self.places.items()}
            text = json.dumps({"tree": str(self.tree), "places": places}, indent=2) + "\n"
            self.folder.mkdir(exist_ok=True)
            draft = self.path.with_suffix(".draft")
            draft.write_text(text, encoding="utf-8")
            draft.replace(self.path)

    def taken_ports(self) -> set[int]:
        """Every port that is promised to some server of this tree."""
        return {port for place in list(self.places.values()) for port in place.ports.values()}


def _place(fields: dict[str, Any]) -> Place:
    return Place(
        folder=Path(fields["folder"]),
        ports=dict(fields["ports"]),
        processes=[Process(**process) for process in fields["processes"]],
        ready=fields["ready"],
    )
