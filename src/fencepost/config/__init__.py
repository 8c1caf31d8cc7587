"""The configuration: a TOML file and environment variables, checked as a whole, as frozen records."""

from fencepost.config.problems import ConfigurationErrors
from fencepost.config.reader import ENV_FILE, FILE_NAME, load, made
from fencepost.config.records import (
    BrokerConfig,
    Config,
    DatabaseConfig,
    ExistingConfig,
    LeaseConfig,
    LogConfig,
    RelayConfig,
    RouteConfig,
)
from fencepost.config.secrets import mask_url, masked, scrubber

__all__ = [
    "ENV_FILE",
    "FILE_NAME",
    "BrokerConfig",
    "Config",
    "ConfigurationErrors",
    "DatabaseConfig",
    "ExistingConfig",
    "LeaseConfig",
    "LogConfig",
    "RelayConfig",
    "RouteConfig",
    "load",
    "made",
    "mask_url",
    "masked",
    "scrubber",
]
