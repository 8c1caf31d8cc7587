"""Torture: real relays on real servers, killed, paused, cut off and restarted, and everything read back at the end.

``fencepost torture`` runs it (docs/torture.md). Its parts are those of the demonstration, with more trouble.
"""
