"""A broken broker plug-in: nobody who takes over learns what was published before. Every third answer is lost.

fencepost torture --broker tests.torture.forgets_receipts+nats://host:4222
"""

from __future__ import annotations

from typing import Any

from fencepost.ports import BrokerOptions
from fencepost.receipt import Receipts
from tests.torture.loses_answers import LosesAnswers, Wrapped, real


def broker(options: BrokerOptions) -> Any:
    """As every plug-in has it."""
    return Wrapped(real(options), _Forgetful)


class _Forgetful(LosesAnswers):
    @property
    def receipts(self) -> Receipts:
        return Receipts(())
