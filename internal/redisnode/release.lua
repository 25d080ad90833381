-- Gives the lock back if this grant holds it. The same release sent again, since
-- its reply was lost, succeeds again.
--
-- KEYS[1] lock    KEYS[2] fence
-- ARGV[1] holder  ARGV[2] token  ARGV[3] id of this release  ARGV[4] retention, ms
-- ARGV[5] channel  ARGV[6] 1 if listeners may be on other servers
--
-- Returns 1 and how many wait for the lock, or 0 if this grant does not hold it.
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ':' .. ARGV[2] then
  local record = redis.call('GET', KEYS[2])
  return record and string.find(record, ' ' .. ARGV[3], 17, true) and 1 or 0
end
-- The lock first: a server out of memory lets a script write that has begun to.
redis.call('DEL', KEYS[1])
local id = ' ' .. ARGV[3]
if redis.call('APPEND', KEYS[2], id) == #id then -- it was gone
  redis.call('SET', KEYS[2], ARGV[2] .. id)
  if ARGV[4] ~= '0' then
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
  end
end
-- As in wake.lua.
local listeners = 0
if ARGV[6] == '0' then
  listeners = redis.pcall('PUBLISH', ARGV[5], '')
  if listeners == 0 or type(listeners) ~= 'number' then
    return 1
  end
end
redis.pcall('PUBLISH', ARGV[5], ARGV[2] .. ' ' .. listeners)
return 1 + listeners
