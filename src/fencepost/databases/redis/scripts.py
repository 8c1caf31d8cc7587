"""What happens on the server in one step, in Lua. Entries are named by their ids (see entry.py)."""

from __future__ import annotations

from fencepost.resp.script import Script

_LAST = """\
local function fencepost_last(...)
  local last = 0
  for _, key in ipairs({...}) do
    local info = redis.call('EXISTS', key) == 1 and redis.call('XINFO', 'STREAM', key) or {}
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' then last = math.max(last, tonumber(string.match(info[i + 1], '^%d+'))) end
    end
  end
  return string.format('%.0f', last)
end
"""
"""The highest position in streams, of entries that are gone too: where somebody has deleted the counter."""

ADD = (
    _LAST
    + """\
local function fencepost_newer(a, b) return #a > #b or #a == #b and a > b end
local function fencepost_version(version, entity, counts)
  if version == '+' then
    local drawn = redis.call('HINCRBY', counts, entity, 1)
    return drawn < 2 ^ 53 and string.format('%.0f', drawn) or redis.call('HGET', counts, entity)
  end
  if counts and version ~= '=' then
    if not fencepost_newer(version, redis.call('HGET', counts, entity) or '0') then
      error({err = 'CONFLICT version ' .. version .. ' of ' .. entity .. ' is not newer than the last one'})
    end
    redis.call('HSET', counts, entity, version)
  end
  return version
end
local function fencepost_position(position, outbox, delayed)
  local number = redis.call('INCR', position)
  if number == 1 then number = redis.call('INCRBY', position, fencepost_last(outbox, delayed)) end
  return string.format('%.0f', number)
end
local function fencepost_add(first, argument)
  local outbox, position, delayed, due = KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
  local counts = KEYS[first + 4] ~= outbox and KEYS[first + 4]
  local head = '^(%d+) (%S+) (%S+) ?([^\\n]*)\\n([^\\n]*)(.*)$'
  local digest, due_us, version, entity, message, payload = string.match(argument, head)
  version = entity ~= '' and fencepost_version(version, entity, counts)
  local at = fencepost_position(position, outbox, delayed)
  if version == '=' then version = at end
  local waits = false
  if due_us ~= '-' then
    local now = redis.call('TIME')
    waits = tonumber(due_us) > now[1] * 1000000 + now[2]
  end
  local words = {waits and delayed or outbox, at .. '-' .. digest}
  if version then
    words[3], words[4] = 'version', version
  end
  words[#words + 1], words[#words + 2] = 'message', message
  if payload ~= '' then
    words[#words + 1], words[#words + 2] = 'payload', string.sub(payload, 2)
  end
  local entry = redis.call('XADD', unpack(words))
  if waits then redis.call('ZADD', due, due_us, entry) end
  return {at, version or ''}
end
"""
)
"""The function ``fencepost_add(first, argument)``: the keys from KEYS[first] on are outbox, position, delayed, due and
the entity's (or the outbox again, where versions are positions). Returns {position, version}, or raises an error.
"""

ADD_ONE = Script(ADD + "return fencepost_add(1, ARGV[1])")

_PADDED = """\
local function padded(name) return string.rep('0', 21 - string.find(name, '-', 1, true)) .. name end
"""

SETTLE = Script(
    _PADDED
    + """\
local gone = 0
for i = 1, #ARGV, 2000 do
  local names = {unpack(ARGV, i, math.min(i + 1999, #ARGV))}
  local found = redis.call('XDEL', KEYS[1], unpack(names))
  if found < #names and redis.call('EXISTS', KEYS[2]) == 1 then
    found = found + redis.call('XDEL', KEYS[2], unpack(names))
    redis.call('ZREM', KEYS[3], unpack(names))
    for j, name in ipairs(names) do
      redis.call('ZREM', KEYS[4], padded(name))
    end
  end
  if redis.call('EXISTS', KEYS[5]) == 1 then
    for j, name in ipairs(names) do
      redis.call('HDEL', KEYS[5], name .. ' attempts', name .. ' token', name .. ' error')
    end
  end
  gone = gone + found
end
return gone
"""
)
"""KEYS: outbox, delayed, due, released, tries. ARGV: entry ids. Returns how many there were."""

_WAITS = """\
local function waits(name)
  for i = 1, 2 do
    local found = redis.call('XRANGE', KEYS[i], name, name)[1]
    if found then return found, KEYS[i] end
  end
end
"""

IN_DOUBT = Script(
    _WAITS
    + """\
for i = 2, #ARGV do
  if waits(ARGV[i]) then redis.call('HSET', KEYS[3], ARGV[i] .. ' token', ARGV[1]) end
end
"""
)
"""KEYS: outbox, delayed, tries. ARGV: the token, then entry ids."""

FAILED = Script(
    _WAITS
    + """\
for i = 1, #ARGV, 2 do
  if waits(ARGV[i]) then
    redis.call('HINCRBY', KEYS[3], ARGV[i] .. ' attempts', 1)
    redis.call('HSET', KEYS[3], ARGV[i] .. ' error', ARGV[i + 1])
  end
end
"""
)
"""KEYS: outbox, delayed, tries. ARGV: entry id and error text in turn."""

PARK = Script(
    _WAITS
    + _PADDED
    + """\
for i = 1, #ARGV, 2 do
  local name = ARGV[i]
  local found, stream = waits(name)
  if found then
    local attempts = redis.call('HGET', KEYS[3], name .. ' attempts') or '0'
    local fields = found[2]
    for _, text in ipairs({'position', string.match(name, '^%d+'), 'attempts', attempts + 1, 'reason', ARGV[i + 1]}) do
      fields[#fields + 1] = text
    end
    redis.call('XADD', KEYS[4], '*', unpack(fields))
    redis.call('XDEL', stream, name)
    redis.call('HDEL', KEYS[3], name .. ' attempts', name .. ' token', name .. ' error')
    redis.call('ZREM', KEYS[5], name)
    redis.call('ZREM', KEYS[6], padded(name))
  end
end
"""
)
"""KEYS: outbox, delayed, tries, parked, due, released. ARGV: entry id and reason in turn."""

PARKED_PAGE = Script("""\
local page = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
for i, entry in ipairs(page) do
  for j = 1, #entry[2], 2 do
    if entry[2][j] == 'payload' then entry[2][j + 1] = #entry[2][j + 1] end
  end
end
return page
""")
"""KEYS: parked. ARGV: where to begin, how many at most. Returns entries, of a payload its length."""

RETRY = Script(
    ADD
    + """\
local done = {}
for i = 1, #ARGV, 5 do
  local name, digest, entity, uncounted, message = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local found = redis.call('XRANGE', KEYS[1], name, name)[1]
  if found then
    local first, version = 2, uncounted
    if entity ~= '' and KEYS[i + 10] ~= KEYS[2] and redis.call('HEXISTS', KEYS[i + 10], entity) == 1 then
      first, version = i + 6, '+'
    end
    local head = digest .. ' - ' .. version .. (entity ~= '' and ' ' .. entity or '')
    local payload = ''
    for j = 1, #found[2], 2 do
      if found[2][j] == 'payload' then payload = '\\n' .. found[2][j + 1] end
    end
    fencepost_add(first, head .. '\\n' .. message .. payload)
    redis.call('XDEL', KEYS[1], name)
    done[#done + 1] = name
  end
end
return done
"""
)
"""KEYS: parked, then those of ``fencepost_add`` without an entity, then for each message those with its own. ARGV: for
each the entry's id, the digest, "TOPIC KEY" (or ""), the version where nobody counts, the line of JSON. Returns the ids
of the entries that were there.
"""

DISCARD = Script("""\
local done = {}
for i, name in ipairs(ARGV) do
  if redis.call('XDEL', KEYS[1], name) == 1 then done[#done + 1] = name end
end
return done
""")
"""KEYS: parked. ARGV: entry ids. Returns those that were there."""

RELEASE_DUE = Script(
    _PADDED
    + """\
local now = redis.call('TIME')
local now_us = now[1] * 1000000 + now[2]
local upto = string.format('%.0f', now_us)
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', upto, 'LIMIT', 0, ARGV[1])) do
  redis.call('ZADD', KEYS[2], 0, padded(name))
  redis.call('ZREM', KEYS[1], name)
end
local next = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return next[2] and string.format('%.0f', math.max(next[2] - now_us, 0))
"""
)
"""KEYS: due, released. ARGV: the most that are released. Returns the microseconds until the next one, or nothing."""

RESERVE = Script(
    _LAST
    + """\
local last = redis.call('GET', KEYS[1]) or fencepost_last(KEYS[2], KEYS[3])
if #last > #ARGV[1] or #last == #ARGV[1] and last >= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""
)
"""KEYS: position, outbox, delayed. ARGV: a position. Returns 1 where it had not been handed out."""

BELOW = Script("""\
local found, from, most = {}, '-', tonumber(ARGV[2])
repeat
  local page = redis.call('XRANGE', KEYS[1], from, ARGV[1], 'COUNT', math.min(500, most - #found))
  for i, entry in ipairs(page) do found[#found + 1] = entry[1] end
  if #page > 0 then from = '(' .. page[#page][1] end
until #page < 500 or #found >= most
return found
""")
"""KEYS: outbox. ARGV: the last entry id that may be among them, how many at most. Returns entry ids."""

REHEARSE = Script("""\
redis.call('XDEL', KEYS[1], '0-1')
redis.call('XDEL', KEYS[3], '0-1')
redis.call('XLEN', KEYS[7])
redis.call('GET', KEYS[2])
redis.call('ZREM', KEYS[4], '')
redis.call('ZREM', KEYS[5], '')
redis.call('HDEL', KEYS[6], '')
""")
"""KEYS: all but those of entities. Does nothing, and is refused where a relay would be refused."""
