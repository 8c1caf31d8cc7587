"""The connection that wakes a relay, when nobody looks at it any more."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

from fencepost.resp.address import address_of
from fencepost.resp.listener import listening
from tests.redis_outbox.servers import redis_server


async def test_one_that_ends_unseen_says_nothing(tmp_path: Path) -> None:
    """asyncio would print a traceback for an error that nobody has asked for."""
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    with redis_server(tmp_path) as server:
        heard: list[str | None] = []
        listener = await listening(address_of(server.url), 5.0, None, heard.append)
        await listener.subscribe("orders")
        server.kill()
        async with asyncio.timeout(10):
            while not listener.lost:
                await asyncio.sleep(0.01)
    assert heard == [None]
    del listener
    await asyncio.sleep(0)
    gc.collect()
    assert said == []
