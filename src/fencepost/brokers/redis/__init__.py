"""Redis Streams as a broker: one script checks the fence, adds a batch to the streams of its topics, and its receipt.

Exactly-once. What that is worth is what the server's own writes are worth: see docs/redis-streams.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.brokers.redis.broker import RedisBroker
from fencepost.brokers.redis.settings import parse
from fencepost.errors import ConfigurationError
from fencepost.ports import BrokerOptions
from fencepost.resp.address import address_of


def broker(options: BrokerOptions) -> RedisBroker:
    """The broker of a URL such as redis://host:6379/0, rediss:// with TLS, or redis+sentinel://host:port/name.

    Raises ConfigurationError.
    """
    return RedisBroker(options)


def refused(url: str, settings: Mapping[str, object]) -> dict[str, ConfigurationError]:
    """What cannot be used of the URL ("url") and the settings, and why."""
    _, errors = parse(settings)
    try:
        address_of(url)
    except ConfigurationError as error:
        return {"url": error, **errors}
    return errors
