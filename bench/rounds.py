"""Several rounds of a relay's drain, each beside its ceiling: said one by one, and what is in the middle."""

from __future__ import annotations

import statistics
from collections.abc import Callable

Pair = tuple[dict[str, float], dict[str, float]]
"""What the relay did, and its ceiling."""
Say = Callable[[str], None]


def measured(one_round: Callable[[str], Pair], run: str, count: int, say: Say) -> dict[str, float]:
    """So many rounds, each with a topic of its own."""
    found = []
    for n in range(count):
        relay, plain = one_round(f"{run}-{n}")
        found.append((relay, plain))
        say(
            f"  round {n + 1}: relay {relay['messages_per_s']:>9,.0f}/s  {relay['cpu_us_per_message']:5.1f} us CPU"
            f"  {relay['peak_rss_mb']:5.0f} MB   ceiling {plain['messages_per_s']:>9,.0f}/s"
            f"  {plain['cpu_us_per_message']:5.1f} us   ratio {relay['messages_per_s'] / plain['messages_per_s']:.2f}"
        )
    middle = statistics.median
    return {
        "messages_per_s": middle(r["messages_per_s"] for r, _ in found),
        "ceiling_per_s": middle(c["messages_per_s"] for _, c in found),
        "ratio_to_ceiling": middle(r["messages_per_s"] / c["messages_per_s"] for r, c in found),
        "cpu_us_per_message": middle(r["cpu_us_per_message"] for r, _ in found),
        "ceiling_cpu_us_per_message": middle(c["cpu_us_per_message"] for _, c in found),
        "publishing_share": middle(r["publishing_share"] for r, _ in found),
        "peak_rss_mb": max(r["peak_rss_mb"] for r, _ in found),
    }
