"""HTTP webhooks as a broker: each message is one POST, and a success status of the target is its acknowledgement.

The target may have a message twice (at-least-once); a repeat has the same id and is marked. A target in trouble keeps
its own messages back and nobody else's.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.brokers.http.broker import HttpBroker
from fencepost.brokers.http.routes import url_fault
from fencepost.brokers.http.settings import parse
from fencepost.errors import ConfigurationError
from fencepost.ports import Broker, BrokerOptions


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as https://shop.example/hooks/{topic}. Raises ConfigurationError."""
    return HttpBroker(options)


def refused(url: str, settings: Mapping[str, object]) -> dict[str, ConfigurationError]:
    """What cannot be used of the URL ("url") and the settings, and why."""
    _, errors = parse(settings)
    fault = url_fault(url)
    return {"url": fault, **errors} if fault else errors
