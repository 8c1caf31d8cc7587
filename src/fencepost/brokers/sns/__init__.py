"""Amazon SNS as a broker. FIFO topics recognise a repeated id for 5 minutes; standard topics deliver at least once.

A message is published when SNS has named it among those that it took.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.aws.address import Sns, server_of
from fencepost.aws.publishing.broker import AwsBroker
from fencepost.aws.publishing.settings import parse, read
from fencepost.brokers.sns.settings import Settings
from fencepost.brokers.sns.topics import Topics
from fencepost.errors import ConfigurationError
from fencepost.ports import Broker, BrokerOptions


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as sns://eu-west-1/ (with ?endpoint=URL for a server of one's own).

    Raises ConfigurationError.
    """
    settings, server = read(Settings, options.settings), server_of(Sns, options.url)
    return AwsBroker(options, server, settings, Topics(server, settings))


def refused(url: str, settings: Mapping[str, object]) -> dict[str, ConfigurationError]:
    """What cannot be used of the URL ("url") and the settings, and why."""
    _, errors = parse(Settings, settings)
    try:
        server_of(Sns, url)
    except ConfigurationError as error:
        return {"url": error, **errors}
    return errors
