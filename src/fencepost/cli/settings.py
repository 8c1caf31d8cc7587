"""The configuration as every command reads it."""

from __future__ import annotations

import os
from pathlib import Path

from fencepost.cli.failures import MANNER
from fencepost.config import Config, load, scrubber


def load_config(file: Path | None) -> Config:
    """The configuration; from now on its secrets are replaced in every error. Raises ConfigurationError."""
    config = load(file, os.environ)
    MANNER.scrub = scrubber(config)
    return config
