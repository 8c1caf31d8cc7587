"""Amazon SQS as a broker. FIFO queues recognise a repeated id for 5 minutes; standard queues deliver at least once.

A message is published when SQS has named it among those that it took.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.aws.address import Sqs, server_of
from fencepost.aws.publishing.broker import AwsBroker
from fencepost.aws.publishing.settings import parse, read
from fencepost.brokers.sqs.queues import Queues
from fencepost.brokers.sqs.settings import Settings
from fencepost.errors import ConfigurationError
from fencepost.ports import Broker, BrokerOptions


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as sqs://eu-west-1/ (with ?endpoint=URL for a server of one's own).

    Raises ConfigurationError.
    """
    settings = read(Settings, options.settings)
    return AwsBroker(options, server_of(Sqs, options.url), settings, Queues(settings))


def refused(url: str, settings: Mapping[str, object]) -> dict[str, ConfigurationError]:
    """What cannot be used of the URL ("url") and the settings, and why."""
    _, errors = parse(Settings, settings)
    try:
        server_of(Sqs, url)
    except ConfigurationError as error:
        return {"url": error, **errors}
    return errors
