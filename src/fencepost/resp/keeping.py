"""What a server keeps and what it may lose: what is refused because of that, and what would serve better."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.errors import AccessDenied, ConfigurationError, FixError, Unavailable
from fencepost.resp.link import Link
from fencepost.resp.server import Server, server_of

_NOEVICTION = "set maxmemory-policy noeviction: a full server then refuses writes, and loses none"


def must_keep(server: Server, place: str) -> None:
    """Raise ConfigurationError where the server would remove keys that have no expiry."""
    if server.evicts and server.limited:
        what = f"{place} removes any key when its memory is full ({server.evicts}): messages would be lost"
        raise ConfigurationError(what, remedy=_NOEVICTION)


async def advice(link: Link, *, ours: str, lost: str) -> list[str]:
    """How the server would keep more, a line each.

    ``ours`` says whose keys are spoken of ("the outbox's"), ``lost`` what a server that writes nothing to disk loses.
    """
    return list(_advice(await server_of(link), await settings(link, "save"), ours, lost))


async def settings(link: Link, *names: str) -> dict[str, str]:
    """Settings that INFO does not tell. Hosted servers often do not let anybody ask: then there are none."""
    try:
        answer: list[bytes] = await link.one("CONFIG", "GET", *names)
    except (AccessDenied, FixError, Unavailable):  # as they say it: no right to it, no such command, renamed
        return {}
    words = [word.decode(errors="replace") for word in answer]
    return dict(zip(words[::2], words[1::2], strict=True))


def _advice(server: Server, known: dict[str, str], ours: str, lost: str) -> Iterable[str]:
    told = server.told
    if told.get("aof_enabled") == "0":
        if known.get("save") == "":
            yield f"nothing is written to disk: a restart loses {lost} (set appendonly yes)"
        else:
            yield "what happened since the last snapshot is lost in a restart: set appendonly yes"
    yield from _of_memory(server, ours)
    replicas = int(told.get("connected_slaves", "0"))
    if replicas and "min_slaves_good_slaves" not in told:
        yield (
            f"{replicas} replicas follow asynchronously: a fail-over may lose the last writes, yours and {ours}"
            " (set min-replicas-to-write 1 and min-replicas-max-lag to bound it)"
        )


def _of_memory(server: Server, ours: str) -> Iterable[str]:
    policy = server.told.get("maxmemory_policy", "noeviction")
    if server.evicts:
        yield f"maxmemory-policy {policy} would remove messages once maxmemory is set: use noeviction"
    elif policy != "noeviction":
        yield f"maxmemory-policy {policy} removes keys that have an expiry (yours, not {ours}): use noeviction"
