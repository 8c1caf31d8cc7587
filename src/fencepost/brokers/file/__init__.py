"""Files of JSON lines, or standard output, as a broker: one line for each message.

A reader may find a message twice (at-least-once); a repeat has the same id and is marked.
"""

from __future__ import annotations

from fencepost.brokers.file.address import Address
from fencepost.brokers.file.broker import FileBroker
from fencepost.brokers.file.settings import Settings
from fencepost.ports import Broker, BrokerOptions
from fencepost.settings import refusing


def broker(options: BrokerOptions) -> Broker:
    """The broker of file:///folder/{topic}.jsonl, of file:///all.jsonl, or of stdout: (standard output).

    Raises ConfigurationError.
    """
    return FileBroker(options)


refused = refusing(Settings, Address.of)
"""What cannot be used of the URL ("url") and the settings, and why."""
