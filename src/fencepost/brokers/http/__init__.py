"""HTTP webhooks as a broker: each message is one POST, and a success status of the target is its acknowledgement.

The target may have a message twice (at-least-once); a repeat has the same id and is marked. A target in trouble keeps
its own messages back and nobody else's.
"""

from __future__ import annotations

from fencepost.brokers.http.broker import HttpBroker
from fencepost.brokers.http.routes import url_fault
from fencepost.brokers.http.settings import Settings
from fencepost.ports import Broker, BrokerOptions
from fencepost.settings import refusing


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as https://shop.example/hooks/{topic}. Raises ConfigurationError."""
    return HttpBroker(options)


def _check(url: str) -> None:
    if fault := url_fault(url):
        raise fault


refused = refusing(Settings, _check)
"""What cannot be used of the URL ("url") and the settings, and why."""
