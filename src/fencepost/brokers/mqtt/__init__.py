"""MQTT 5 as a broker: QoS 1, and a message is published only when the server has acknowledged it with success.

MQTT keeps no receipts and recognises no repeats: at least once, with repeats marked. A server ends an older connection
of the same client id before it lets the new one in, so an earlier owner of a lane cannot publish any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.brokers.mqtt.address import Address
from fencepost.brokers.mqtt.broker import MqttBroker
from fencepost.brokers.mqtt.settings import parse
from fencepost.errors import ConfigurationError
from fencepost.ports import Broker, BrokerOptions


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as mqtt://user:password@host:1883 (mqtts:// with TLS; several hosts with commas).

    Raises ConfigurationError.
    """
    return MqttBroker(options)


def refused(url: str, settings: Mapping[str, object]) -> dict[str, ConfigurationError]:
    """What cannot be used of the URL ("url") and the settings, and why."""
    _, errors = parse(settings)
    try:
        Address.of(url)
    except ConfigurationError as error:
        return {"url": error, **errors}
    return errors
