"""A folder as KAFKA_HOME names it, with the jars that dev/services has loaded."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from servers.kafka import FOLDER


def kafka_home(folder: Path) -> str | None:
    """The user's own, or one that is made in ``folder``; None where Kafka or Java is not installed."""
    if given := os.environ.get("KAFKA_HOME"):
        return given
    if shutil.which("java") is None or not list(FOLDER.glob("kafka_*.jar")):
        return None
    libs = folder / "kafka" / "libs"
    libs.parent.mkdir(parents=True, exist_ok=True)
    libs.unlink(missing_ok=True)
    libs.symlink_to(FOLDER)
    return str(libs.parent)
