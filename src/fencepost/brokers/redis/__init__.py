"""Redis Streams as a broker: one script checks the fence, adds a batch to the streams of its topics, and its receipt.

Exactly-once. What that is worth is what the server's own writes are worth: see docs/redis-streams.md.
"""

from __future__ import annotations

from fencepost.brokers.redis.broker import RedisBroker
from fencepost.brokers.redis.settings import Settings
from fencepost.ports import BrokerOptions
from fencepost.resp.address import address_of
from fencepost.settings import refusing


def broker(options: BrokerOptions) -> RedisBroker:
    """The broker of a URL such as redis://host:6379/0, rediss:// with TLS, or redis+sentinel://host:port/name.

    Raises ConfigurationError.
    """
    return RedisBroker(options)


refused = refusing(Settings, address_of)
"""What cannot be used of the URL ("url") and the settings, and why."""
