"""Databases that hold an outbox, one technology each: ``source(options)`` reads it, ``schema(options)`` makes it."""
