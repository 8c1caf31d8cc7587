"""Applications with an outbox, one module for each database of this project."""
