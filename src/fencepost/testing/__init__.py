"""The shipped test kit: rules for every kind of plug-in, and the judge of histories.

``pytest --pyargs fencepost.testing --database=NAME --broker=NAME --election=NAME`` runs the rules against plug-ins,
ours or anybody's (docs/testing-a-plugin.md). The same rules are classes to subclass: ``sources.SourceRules``,
``brokers.BrokerRules``, ``elections.ElectionRules``. Production code never imports this package.
"""

from fencepost.testing import history
from fencepost.testing.harness import Parked, Reader, Seen, Transaction, Writer

__all__ = ["Parked", "Reader", "Seen", "Transaction", "Writer", "history"]
