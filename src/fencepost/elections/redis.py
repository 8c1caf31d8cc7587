"""Leases in a Redis: one hash for each, changed by scripts, on the server's own clock (TIME).

A lease is a key PREFIXlease:NAME with the owner, the token, and when it began and ends; it has no expiry of Redis,
because its token must only ever grow. Releases and take-overs are published on the channel PREFIXlease:NAME:news, which
wakes those who wait. The owner listens on a channel of its term, PREFIXlease:NAME:TOKEN: where nobody listens there any
more, its connection has ended, and the lease may be taken before it does.

One node: a fail-over to a replica that misses the last writes may give a lease twice. Brokers that fence do not mind.

Settings: ``session_evidence`` is "auto" (the default: the owner's channel tells) or "off".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.clock import Clock
from fencepost.elections.bells import Bells, rung
from fencepost.elections.redis_link import LeaseLinks
from fencepost.errors import AccessDenied, ConfigurationError, RetryError
from fencepost.ports import Holder, LeaseOptions, Term
from fencepost.resp.script import Script
from fencepost.words import as_written

_LOOK_EVERY_S = (1.05, 1.15)  # less than one question per second of each who stands by

_NOW = "local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]\n"
_GONE = """\
local function gone(session, token)
  return session == '1' and redis.call('PUBLISH', KEYS[1] .. ':' .. token, '') == 0
end
"""

_ACQUIRE = Script(
    _NOW
    + _GONE
    + """\
local found = redis.call('HMGET', KEYS[1], 'owner', 'expires_us', 'session', 'token')
local early = 0
if found[1] and found[1] ~= ARGV[1] and tonumber(found[2]) > now then
  if not gone(found[3], found[4]) then return nil end
  early = 1
end
local token = redis.call('HINCRBY', KEYS[1], 'token', 1)
local began, ends = string.format('%.0f', now), string.format('%.0f', now + ARGV[2])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'acquired_us', began, 'expires_us', ends, 'session', 0)
redis.call('PUBLISH', KEYS[1] .. ':news', token)
return {token, early}
"""
)
_RENEW = Script(
    _NOW
    + """\
local found = redis.call('HMGET', KEYS[1], 'owner', 'token')
if found[1] ~= ARGV[1] or found[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'expires_us', string.format('%.0f', now + ARGV[3]), 'session', ARGV[4])
return 1
"""
)
_HOLD = Script("""\
local found = redis.call('HMGET', KEYS[1], 'owner', 'token')
if found[1] == ARGV[1] and found[2] == ARGV[2] then redis.call('HSET', KEYS[1], 'session', 1) end
""")
_RELEASE = Script("""\
local found = redis.call('HMGET', KEYS[1], 'owner', 'token')
if found[1] ~= ARGV[1] or found[2] ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], 'owner', 'acquired_us', 'expires_us', 'session')
redis.call('PUBLISH', KEYS[1] .. ':news', ARGV[2])
return 1
""")
_LOOK = Script(
    _NOW
    + _GONE
    + """\
local found = redis.call('HMGET', KEYS[1], 'owner', 'token', 'acquired_us', 'expires_us', 'session')
if not found[1] then return nil end
local held, left = string.format('%.0f', now - found[3]), string.format('%.0f', found[4] - now)
return {found[1], found[2], held, left, gone(found[5], found[2]) and 1 or 0}
"""
)
_REHEARSE = Script("redis.call('HDEL', KEYS[1], '') redis.call('PUBLISH', KEYS[1] .. ':news', '')")


class RedisLeaseStore:
    """A LeaseStore with two connections of its own: one asks, one listens."""

    fences = "nothing by itself"

    def __init__(self, options: LeaseOptions) -> None:
        self._wants_evidence = _wants_evidence(options.settings)
        self._bells = Bells()
        self._links = LeaseLinks(options, self._bells.ring)
        self._prefix = f"{options.prefix}lease:"
        self._clock: Clock = options.clock
        self._held: dict[str, Term] = {}

    async def open(self) -> None:
        """See LeaseStore."""
        self._links.reopen()
        await self._links.asking()

    async def rehearse(self) -> None:
        """See LeaseStore."""
        try:
            await self._run(_REHEARSE, "rehearsal")
            await (await self._links.listener()).subscribe(self._news("rehearsal"))
        except AccessDenied as error:
            raise AccessDenied(f"no lease can be taken or kept: {error.what}", remedy=error.remedy) from error

    async def acquire(self, name: str, owner: str, ttl_s: float) -> Term | None:
        """See LeaseStore."""
        found = await self._run(_ACQUIRE, name, owner, _us(ttl_s))
        if found is None:
            return None
        term = self._held[name] = Term(name, owner, int(found[0]), early=bool(found[1]))
        if await self._is_heard(term):
            await self._run(_HOLD, name, owner, term.token)
        return term

    async def renew(self, term: Term, ttl_s: float) -> bool:
        """See LeaseStore."""
        session = await self._is_heard(term)
        renewed = await self._run(_RENEW, term.name, term.owner, term.token, _us(ttl_s), int(session))
        if not renewed:
            await self._forget(term)
        return bool(renewed)

    async def release(self, term: Term) -> None:
        """See LeaseStore."""
        try:
            await self._run(_RELEASE, term.name, term.owner, term.token)
        finally:
            await self._forget(term)

    async def wait(self, name: str, timeout_s: float) -> None:
        """See LeaseStore. The owner is woken when somebody else takes the lease, or when its connection ends."""
        until_s = self._clock.monotonic() + timeout_s
        with self._bells.hung(self._news(name)) as bell:
            await (await self._links.listener()).subscribe(self._news(name))
            while (left_s := until_s - self._clock.monotonic()) > 0:
                found = await self._run(_LOOK, name)
                if found is None or found[4] or int(found[3]) <= 0:
                    return
                pause_s = min(left_s, int(found[3]) / 1e6)
                held = self._held.get(name)
                if held is not None:
                    if held.token == int(found[1]) and self._links.listens:
                        await rung(bell, pause_s)
                    return
                if await rung(bell, min(pause_s, self._between_looks_s())):
                    return

    async def holder(self, name: str) -> Holder | None:
        """See LeaseStore."""
        found = await self._run(_LOOK, name)
        if found is None:
            return None
        owner, token, held_us, left_us, _ = found
        remaining_s, held_s = int(left_us) / 1e6, max(int(held_us), 0) / 1e6
        return Holder(owner=owner.decode(), token=int(token), remaining_s=remaining_s, held_s=held_s)

    async def close(self) -> None:
        """See LeaseStore."""
        self._held.clear()
        await self._links.close()
        self._bells.ring(None)

    # -- the inside ---------------------------------------------------------------------------------------------------

    async def _run(self, script: Script, name: str, *arguments: str | int) -> Any:
        link = await self._links.asking()
        return await link.run(script, (self._key(name),), arguments)

    def _key(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def _news(self, name: str) -> str:
        return f"{self._key(name)}:news"

    def _channel(self, term: Term) -> str:
        return f"{self._key(term.name)}:{term.token}"

    async def _is_heard(self, term: Term) -> bool:
        """Whether the term's channel shows that this store is there. Without, the lease only lasts as it says."""
        if not self._wants_evidence:
            return False
        try:
            await (await self._links.listener()).subscribe(self._channel(term))
        except (RetryError, AccessDenied):
            return False
        return True

    async def _forget(self, term: Term) -> None:
        if self._held.get(term.name) == term:
            del self._held[term.name]
        if self._links.listens:
            await (await self._links.listener()).unsubscribe(self._channel(term))

    def _between_looks_s(self) -> float:
        low_s, high_s = _LOOK_EVERY_S
        return low_s + (high_s - low_s) * self._clock.random()


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)


def _wants_evidence(settings: Mapping[str, object]) -> bool:
    for error in refused("", settings).values():
        raise error
    return settings.get("session_evidence", "auto") == "auto"


def refused(url: str, settings: Mapping[str, object]) -> Mapping[str, ConfigurationError]:
    """What cannot be used of the settings, by their names."""
    found = {}
    for name, value in settings.items():
        if name != "session_evidence":
            found[name] = ConfigurationError(f"{name!r} is unknown", remedy="leases in Redis have session_evidence")
        elif value not in {"auto", "off"}:
            found[name] = ConfigurationError(f"session_evidence = {as_written(value)}", remedy='write "auto" or "off"')
    return found


def lease_store(options: LeaseOptions) -> RedisLeaseStore:
    """The plug-in's factory. Raises ConfigurationError."""
    return RedisLeaseStore(options)
