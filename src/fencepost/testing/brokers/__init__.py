"""The rules of ``fencepost.ports.Broker`` and ``Handoff``."""

from __future__ import annotations

from fencepost.testing.brokers.content import ContentRules
from fencepost.testing.brokers.fencing import FencingRules
from fencepost.testing.brokers.handoffs import HandoffRules
from fencepost.testing.brokers.publishing import PublishingRules
from fencepost.testing.brokers.receipts import ReceiptRules
from fencepost.testing.brokers.refusing import RefusingRules
from fencepost.testing.brokers.weaker import WeakerRules


class BrokerRules(PublishingRules, ContentRules, RefusingRules, HandoffRules, FencingRules, ReceiptRules, WeakerRules):
    """Every rule of a broker plug-in: subclass it and set ``broker``.

    Override the fixtures ``broker_url`` and ``broker_settings`` where the address is not found by itself.
    """
