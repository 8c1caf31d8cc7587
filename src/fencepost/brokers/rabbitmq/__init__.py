"""RabbitMQ as a broker: publisher confirms, ``mandatory``, persistent messages; at least once.

A message is published when the server has confirmed it and has not returned it. RabbitMQ has neither a fence nor a
memory of ids, so a repeat is possible after a crash; it is marked.
"""

from __future__ import annotations

from fencepost.brokers.rabbitmq.address import Address
from fencepost.brokers.rabbitmq.broker import RabbitBroker
from fencepost.brokers.rabbitmq.settings import Settings
from fencepost.ports import Broker, BrokerOptions
from fencepost.settings import refusing


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as amqp://user:password@host:5672/vhost (amqps:// with TLS; several hosts with commas).

    Raises ConfigurationError.
    """
    return RabbitBroker(options)


refused = refusing(Settings, Address.of)
"""What cannot be used of the URL ("url") and the settings, and why."""
