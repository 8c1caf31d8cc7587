"""Tables of somebody else as outboxes: statements in the shape of ``SourceStatements``, checks, limits.

The sessions of a database run these statements as they run those of Fencepost's own tables.
"""
