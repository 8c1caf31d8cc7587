"""The relay: reads pending messages in order, hands them to a broker, settles them."""

from fencepost.relay.service import Relay, RelayOptions

__all__ = ["Relay", "RelayOptions"]
