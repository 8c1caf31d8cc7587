"""Readers of what was published, one module for each broker of this project."""
