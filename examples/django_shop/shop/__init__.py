"""A shop that tells others of its orders."""
