"""Amazon SNS as a broker. FIFO topics recognise a repeated id for 5 minutes; standard topics deliver at least once.

A message is published when SNS has named it among those that it took.
"""

from __future__ import annotations

from functools import partial

from fencepost.aws.address import Sns, server_of
from fencepost.aws.publishing.broker import AwsBroker
from fencepost.brokers.sns.settings import Settings
from fencepost.brokers.sns.topics import Topics
from fencepost.ports import Broker, BrokerOptions
from fencepost.settings import refusing


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as sns://eu-west-1/ (with ?endpoint=URL for a server of one's own).

    Raises ConfigurationError.
    """
    settings, server = Settings.read(options.settings), server_of(Sns, options.url)
    return AwsBroker(options, server, settings, Topics(server, settings))


refused = refusing(Settings, partial(server_of, Sns))
"""What cannot be used of the URL ("url") and the settings, and why."""
