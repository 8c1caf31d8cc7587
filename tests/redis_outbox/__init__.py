"""Redis as a database and as a lease store, on real servers."""
