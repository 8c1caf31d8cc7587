"""The form with a collection of its own: messages wait in ``fencepost_outbox``, added by the caller's transactions."""
