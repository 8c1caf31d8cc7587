"""The configuration: a TOML file and environment variables, checked as a whole, as frozen records."""

from fencepost.config.problems import ConfigurationErrors
from fencepost.config.reader import ENV_FILE, FILE_NAME, load
from fencepost.config.records import (
    BrokerConfig,
    Config,
    DatabaseConfig,
    LeaseConfig,
    LogConfig,
    RelayConfig,
)
from fencepost.config.secrets import mask_url, masked, scrubber

__all__ = [
    "ENV_FILE",
    "FILE_NAME",
    "BrokerConfig",
    "Config",
    "ConfigurationErrors",
    "DatabaseConfig",
    "LeaseConfig",
    "LogConfig",
    "RelayConfig",
    "load",
    "mask_url",
    "masked",
    "scrubber",
]
