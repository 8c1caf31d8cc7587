"""The servers that the tests talk to: how each one is installed, started, asked whether it is ready, and stopped.

One file per server; `catalogue` lists them. Only the standard library is used, so that this works before anything is
installed.
"""
