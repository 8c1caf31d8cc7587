"""An end for what might wait for ever: a writer that calls itself concurrent, and lets nobody write beside another."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Timer

import pytest

DEADLINE_S = 20.0
"""For what takes milliseconds where it need not wait."""


@asynccontextmanager
async def in_time(config: pytest.Config, why: str) -> AsyncIterator[None]:
    """Let the rule fail with ``why`` where the block does not come to its end.

    A call that blocks the event loop's own thread cannot be given up, not even at the end of the rule: then the whole
    run says why and ends.
    """
    last = Timer(2 * DEADLINE_S, _give_up, (config, why))
    last.daemon = True
    last.start()
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield
    except TimeoutError:
        pytest.fail(why)
    finally:
        last.cancel()


def _give_up(config: pytest.Config, why: str) -> None:
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    os.write(2, f"\n{os.environ.get('PYTEST_CURRENT_TEST', 'a rule')}: {why}\n".encode())
    os._exit(pytest.ExitCode.INTERRUPTED)
