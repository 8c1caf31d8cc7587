"""Amazon SQS as a broker. FIFO queues recognise a repeated id for 5 minutes; standard queues deliver at least once.

A message is published when SQS has named it among those that it took.
"""

from __future__ import annotations

from functools import partial

from fencepost.aws.address import Sqs, server_of
from fencepost.aws.publishing.broker import AwsBroker
from fencepost.brokers.sqs.queues import Queues
from fencepost.brokers.sqs.settings import Settings
from fencepost.ports import Broker, BrokerOptions
from fencepost.settings import refusing


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as sqs://eu-west-1/ (with ?endpoint=URL for a server of one's own).

    Raises ConfigurationError.
    """
    settings = Settings.read(options.settings)
    return AwsBroker(options, server_of(Sqs, options.url), settings, Queues(settings))


refused = refusing(Settings, partial(server_of, Sqs))
"""What cannot be used of the URL ("url") and the settings, and why."""
