"""The ways an application talks to its database, one module each. Their contract is fencepost.sql.transaction."""
