"""Execute the runnable blocks of one page in the current folder, as ``tests.docs.pages`` describes them.

    python -W error -m tests.docs.run_page PAGE

With DATABASE_URL or REDIS_URL in the environment the blocks that need such a server are executed too.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import FunctionType

from tests.docs.pages import Block, blocks, is_run, needed


def main(page: Path) -> None:
    """Execute the blocks; any error ends it."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed: str | None = None
    count = 0
    with asyncio.Runner() as loop:
        for block in blocks(page):
            if is_run(block):
                wanted = needed(block) is None or needed(block) in os.environ
                printed = _execute(page, block, namespace, loop) if wanted else None
                count += wanted
            elif "output" in block.words and printed is not None:
                assert printed == block.text, f"{page.name}:{block.line}: this is printed:\n{printed}"
    print(f"{count} blocks")


def _execute(page: Path, block: Block, namespace: dict[str, object], loop: asyncio.Runner) -> str:
    """Run one block; what it printed. Its lines have the numbers that they have in the page."""
    source = "\n" * (block.line - 1) + block.text
    code = compile(source, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    with redirect_stdout(io.StringIO()) as output:
        if code.co_flags & inspect.CO_COROUTINE:
            loop.run(FunctionType(code, namespace)())
        else:
            exec(code, namespace)
    return output.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
