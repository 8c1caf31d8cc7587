"""Which topics can be published: what stands at their keys is a stream to which entries are added by the time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fencepost.brokers.redis.scripts import LOOK
from fencepost.errors import AccessDenied, ConfigurationError, FixError, SchemaMissing
from fencepost.resp.link import Link

_TIMES_MS = range(10**11, 10**14)
"""From 1973 to 5138."""
_KNOWN_KEPT_MAX = 10_000


class Streams:
    """What is known of the streams on one link. ``create`` allows that they do not exist."""

    def __init__(self, link: Link, *, create: bool) -> None:
        self._link, self._create = link, create
        self._known: set[str] = set()

    async def faults(self, names: Collection[str]) -> dict[str, FixError]:
        """Why nothing can be added to some of these; nothing of the others."""
        asked = [name for name in names if name not in self._known]
        if not asked:
            return {}
        kinds = await self._kinds(asked)
        found = {name: why for name, kind in zip(asked, kinds, strict=True) if (why := self._fault(name, kind))}
        if len(self._known) + len(asked) > _KNOWN_KEPT_MAX:  # topics taken from data must not fill the memory
            self._known.clear()
        self._known.update([name for name in asked if name not in found])
        return found

    async def _kinds(self, names: Sequence[str]) -> list[str | AccessDenied]:
        """One key that the user may not touch refuses them all: then each is asked for."""
        try:
            return [kind.decode() for kind in await self._link.run(LOOK, names)]
        except AccessDenied as error:
            if len(names) == 1:
                return [error]
        return [kind for name in names for kind in await self._kinds([name])]

    def _fault(self, name: str, found: str | AccessDenied) -> FixError | None:
        if isinstance(found, AccessDenied):
            return AccessDenied(f"{found.what} (the stream {name!r})", remedy=found.remedy)
        kind, _, last = found.partition(" ")
        if kind == "none":
            return None if self._create else self._missing(name)
        if kind != "stream":
            return self._another(f"the key {name!r} is no stream but a {kind}")
        if last != "0-0" and int(last.partition("-")[0]) not in _TIMES_MS:
            return self._another(f"the ids of the stream {name!r} are no times ({last}): it is something else's")
        return None

    def _missing(self, name: str) -> SchemaMissing:
        return SchemaMissing(
            f"{self._link.place}: there is no stream {name!r}",
            remedy=f"make it (XGROUP CREATE {name} GROUP $ MKSTREAM), or set create = true in [broker]",
        )

    def _another(self, what: str) -> ConfigurationError:
        return ConfigurationError(f"{self._link.place}: {what}", remedy="set prefix in [broker], or use another topic")
