"""A script that runs on the server, in one step with everything that it does."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

HEADER = "#!lua\n"
"""With it the server knows, before anything of a transaction is done, whether it has the memory for a script."""


@dataclass(frozen=True, slots=True)
class Script:
    """``body`` is Lua. It declares every key that it touches (KEYS), so that it runs in a cluster too."""

    body: str
    text: str = field(init=False)
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", HEADER + self.body)
        digest = hashlib.sha1(self.text.encode(), usedforsecurity=False)  # as the server names scripts
        object.__setattr__(self, "sha", digest.hexdigest())
