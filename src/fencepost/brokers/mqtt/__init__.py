"""MQTT 5 as a broker: QoS 1, and a message is published only when the server has acknowledged it with success.

MQTT keeps no receipts and recognises no repeats: at least once, with repeats marked. A server ends an older connection
of the same client id before it lets the new one in, so an earlier owner of a lane cannot publish any more.
"""

from __future__ import annotations

from fencepost.brokers.mqtt.address import Address
from fencepost.brokers.mqtt.broker import MqttBroker
from fencepost.brokers.mqtt.settings import Settings
from fencepost.ports import Broker, BrokerOptions
from fencepost.settings import refusing


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as mqtt://user:password@host:1883 (mqtts:// with TLS; several hosts with commas).

    Raises ConfigurationError.
    """
    return MqttBroker(options)


refused = refusing(Settings, Address.of)
"""What cannot be used of the URL ("url") and the settings, and why."""
