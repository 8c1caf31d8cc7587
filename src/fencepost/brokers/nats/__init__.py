"""NATS JetStream as a broker.

A server of version 2.12.1 or newer takes a batch and its receipt as one atomic batch: exactly-once. Where the server or
the stream cannot do that, messages are published one by one with their id, which the server recognises inside its
duplicate window.
"""

from __future__ import annotations

from fencepost.brokers.nats.address import Address
from fencepost.brokers.nats.broker import NatsBroker
from fencepost.brokers.nats.settings import Settings
from fencepost.ports import Broker, BrokerOptions
from fencepost.settings import refusing


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as nats://host:4222 (several: with commas; with TLS: nats+tls://).

    Raises ConfigurationError.
    """
    return NatsBroker(options)


refused = refusing(Settings, Address.of)
"""What cannot be used of the URL ("url") and the settings, and why."""
