"""The relay: reads pending messages in order, hands them to a broker, settles them."""

from fencepost.relay.outlet import Outlet
from fencepost.relay.service import Relay, RelayOptions

__all__ = ["Outlet", "Relay", "RelayOptions"]
