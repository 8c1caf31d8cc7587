"""What the outbox and the leases in MongoDB share: addresses, clients, errors."""
