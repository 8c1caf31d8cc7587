"""Files of JSON lines, or standard output, as a broker: one line for each message.

A reader may find a message twice (at-least-once); a repeat has the same id and is marked.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.brokers.file.address import Address
from fencepost.brokers.file.broker import FileBroker
from fencepost.brokers.file.settings import parse
from fencepost.errors import ConfigurationError
from fencepost.ports import Broker, BrokerOptions


def broker(options: BrokerOptions) -> Broker:
    """The broker of file:///folder/{topic}.jsonl, of file:///all.jsonl, or of stdout: (standard output).

    Raises ConfigurationError.
    """
    return FileBroker(options)


def refused(url: str, settings: Mapping[str, object]) -> dict[str, ConfigurationError]:
    """What cannot be used of the URL ("url") and the settings, and why."""
    _, errors = parse(settings)
    try:
        Address.of(url)
    except ConfigurationError as error:
        return {"url": error, **errors}
    return errors
