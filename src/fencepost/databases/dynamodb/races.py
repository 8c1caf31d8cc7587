"""What it means that an application's transaction was cancelled: a lost race, an old version, or its own business."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fencepost.databases.dynamodb.entity import Entity
from fencepost.errors import Contention, VersionConflict

_CONDITION = "ConditionalCheckFailed"
_AGAIN = frozenset({"TransactionConflict", "TransactionConflictException", "TransactionInProgressException"})

Action = Mapping[str, Any]


def fault_of(
    error: BaseException,
    transact_items: Sequence[Action],
    updates: Sequence[tuple[Action, Entity]],
    puts: Collection[Action],
) -> Contention | VersionConflict | None:
    """The fault, or None where the error is not about the outbox. ``updates`` and ``puts`` are the outbox's writes."""
    response = getattr(error, "response", None) or {}
    reasons = response.get("CancellationReasons") or ()
    codes = [str(reason.get("Code")) for reason in reasons]
    if not codes:
        return _lost() if code_of(error) in _AGAIN else None
    for action, reason in zip(transact_items, reasons, strict=False):
        if reason.get("Code") == _CONDITION and action not in puts:
            owner = next((entity for update, entity in updates if update == action), None)
            if owner is None:
                return None  # a condition of the application's own, which has the last word
            conflict = owner.conflict(reason.get("Item") or {})
            if conflict is not None:
                return conflict
    return _lost() if set(codes) - {"None"} <= _AGAIN | {_CONDITION} else None


def code_of(error: BaseException) -> str:
    """The service's code of an error, whichever library raised it; "" for an error of another kind."""
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def _lost() -> Contention:
    return Contention(
        "another transaction was first, nothing was written", remedy="begin this transaction again, from its reads on"
    )
