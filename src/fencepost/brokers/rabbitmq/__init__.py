"""RabbitMQ as a broker: publisher confirms, ``mandatory``, persistent messages; at least once.

A message is published when the server has confirmed it and has not returned it. RabbitMQ has neither a fence nor a
memory of ids, so a repeat is possible after a crash; it is marked.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.brokers.rabbitmq.address import Address
from fencepost.brokers.rabbitmq.broker import RabbitBroker
from fencepost.brokers.rabbitmq.settings import parse
from fencepost.errors import ConfigurationError
from fencepost.ports import Broker, BrokerOptions


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as amqp://user:password@host:5672/vhost (amqps:// with TLS; several hosts with commas).

    Raises ConfigurationError.
    """
    return RabbitBroker(options)


def refused(url: str, settings: Mapping[str, object]) -> dict[str, ConfigurationError]:
    """What cannot be used of the URL ("url") and the settings, and why."""
    _, errors = parse(settings)
    try:
        Address.of(url)
    except ConfigurationError as error:
        return {"url": error, **errors}
    return errors
