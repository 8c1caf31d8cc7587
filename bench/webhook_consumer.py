"""A consumer that takes every webhook and keeps none: python -m bench.webhook_consumer http://127.0.0.1:8099/"""

from __future__ import annotations

import asyncio
import sys

from fencepost.demo.webhooks import Receiver


async def main(url: str) -> None:
    """Until it is ended."""
    Receiver(url, lambda *_: 204)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
