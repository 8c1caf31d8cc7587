"""Subjects: which topics can be one, and which subjects a pattern covers."""

from __future__ import annotations

SUBJECT_BYTES_MAX = 1000
"""The server reads control lines of up to 4,096 bytes; a subject shares one with its reply subject and two numbers."""

RECEIPTS = "fencepost.receipt"
"""The first part of the subjects on which lanes keep their receipts."""


def receipt_subject(lane_name: str) -> str:
    """Where the lane of this name keeps its receipts."""
    return f"{RECEIPTS}.{lane_name}"


def subject_fault(subject: str, *, wildcards: bool = False) -> str:
    """Why this text cannot be a subject of ours, "" where it can. ``wildcards`` allows the tokens * and >."""
    return shape_fault(subject, wildcards=wildcards) or _reserved(subject)


def shape_fault(subject: str, *, wildcards: bool = False) -> str:
    """Why this text cannot be a subject at all, "" where it can."""
    tokens = subject.split(".")
    if not all(tokens):
        return "is empty or has a dot at its beginning or end, or two in a row"
    if not subject.isprintable() or any(c.isspace() for c in subject):
        return "has a blank or a control character"
    if not wildcards and ("*" in subject or ">" in subject):
        return "has a wildcard"
    if ">" in tokens[:-1] or any(len(t) > 1 and ("*" in t or ">" in t) for t in tokens):
        return "has a wildcard in the wrong place"
    if len(subject.encode(errors="replace")) > SUBJECT_BYTES_MAX:
        return f"has more than {SUBJECT_BYTES_MAX:,} bytes"
    return ""


def _reserved(subject: str) -> str:
    """A message there would be taken for a command to the server, or for a receipt."""
    if subject.startswith(("$", "_INBOX.")):
        return "belongs to the server"
    if subject == RECEIPTS or subject.startswith(f"{RECEIPTS}."):
        return "belongs to the receipts"
    return ""


def covers(pattern: str, subject: str) -> bool:
    """True where each subject that ``subject`` stands for (it may have wildcards too) is one of ``pattern``."""
    if pattern == subject:
        return True
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        if len(tokens) <= len(wanted):
            return False
        tokens = tokens[: len(wanted)]
    elif tokens[-1] == ">":
        return False
    return len(wanted) == len(tokens) and all(
        w == t or (w == "*" and t != ">") for w, t in zip(wanted, tokens, strict=True)
    )
