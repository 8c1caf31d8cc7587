"""What happens on the server in one step, in Lua.

Redis undoes nothing where a script fails in the middle. So whatever could be refused is looked at before the first
write; and all that publishing writes, it writes with one command, XADD, which a user has or has not.
"""

from __future__ import annotations

from fencepost.receipt import RECEIPTS_KEPT
from fencepost.resp.script import Script

TAKE_OVER = Script("""\
local fence = redis.call('HINCRBY', KEYS[1], 'fence', 1)
redis.call('HSET', KEYS[1], 'claim', ARGV[1], 'owner', ARGV[2], 'token', ARGV[3])
return {fence, redis.call('XRANGE', KEYS[2], '-', '+')}
""")
"""KEYS: lane, receipts. ARGV: the claim (a text that nobody else has), owner, token. Returns the fence and the entries
of the receipts.
"""

PUBLISH = Script(
    """\
local held = redis.call('HMGET', KEYS[1], 'fence', 'claim', 'owner')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return {'fenced', held[3] or ''} end
for i = 2, #KEYS do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'stream' and (kind ~= 'none' or i > 2 and ARGV[3] == '0') then return {'changed', KEYS[i]} end
end
local limit, i = ARGV[4], 6
while i <= #ARGV do
  local key, last = KEYS[tonumber(ARGV[i])], i + 1 + ARGV[i + 1]
  if limit == '' then
    redis.call('XADD', key, '*', unpack(ARGV, i + 2, last))
  else
    redis.call('XADD', key, 'MAXLEN', '~', limit, '*', unpack(ARGV, i + 2, last))
  end
  i = last + 1
end
"""
    f"redis.call('XADD', KEYS[2], 'MAXLEN', '=', {RECEIPTS_KEPT}, '*', 'receipt', ARGV[5])\n"
    "return {'published'}\n"
)
"""KEYS: lane, receipts, streams. ARGV: fence, claim, whether streams may be created, about how many entries they keep
("" for all), the receipt; then for each message the number of its stream in KEYS, the number of its words, its words.
"""

LOOK = Script("""\
local found = {}
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  found[i] = kind
  if kind == 'stream' then
    local info = redis.call('XINFO', 'STREAM', key)
    for j = 1, #info, 2 do
      if info[j] == 'last-generated-id' then found[i] = 'stream ' .. info[j + 1] end
    end
  end
end
return found
""")
"""KEYS: streams. Returns the kind of each, with its last entry's id where it is one."""

REHEARSE = Script("""\
local needed = {
  {'HMGET', KEYS[1], 'fence'}, {'HINCRBY', KEYS[1], 'fence', 1}, {'HSET', KEYS[1], 'claim', ''}, {'TYPE', KEYS[2]},
  {'XADD', KEYS[2], '*', 'receipt', ''}, {'XRANGE', KEYS[2], '-', '+'}, {'XINFO', 'STREAM', KEYS[2]},
}
for _, words in ipairs(needed) do
  if not redis.acl_check_cmd(unpack(words)) then return words[1] end
end
return ''
""")
"""KEYS: lane, receipts. Changes nothing. Returns the first command that an owner needs and may not use, or ""."""
