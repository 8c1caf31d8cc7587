"""Kafka as a broker: exactly-once for readers that use ``isolation.level=read_committed``.

A batch and its receipt are one Kafka transaction. The fence is Kafka's own: a take-over calls ``init_transactions``
with the lane's transactional ids, after which no earlier owner can commit. Receipts stand in a compacted topic, one
partition per lane.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.brokers.kafka.broker import KafkaBroker
from fencepost.brokers.kafka.options import check_files, unusable
from fencepost.brokers.kafka.settings import flat, natives, wrong
from fencepost.errors import ConfigurationError
from fencepost.ports import Broker, BrokerOptions


def broker(options: BrokerOptions) -> Broker:
    """The broker of a URL such as kafka://host1:9092,host2:9092. Raises ConfigurationError.

    ``settings`` may hold any option of librdkafka whose name has a dot (``security.protocol``, ``sasl.password``,
    ``compression.type``), except those that the guarantee rests on, and those of ``fencepost.brokers.kafka.settings``.
    """
    check_files(flat(options.settings))
    return KafkaBroker(options)


def refused(url: str, settings: Mapping[str, object]) -> dict[str, ConfigurationError]:
    """What cannot be used of the URL ("url") and the settings, and why. What librdkafka says of several options
    together is told when the broker is opened.
    """
    found = wrong(url, settings)
    return found | unusable(natives(settings))
