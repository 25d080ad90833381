-- Gives the lock back if this grant holds it. The same release sent again, since
-- its reply was lost, succeeds again.
--
-- KEYS[1] lock   KEYS[2] fence
-- ARGV[1] value of the lock   ARGV[2] a space and the id of this release, 19 digits
-- ARGV[3] retention, ms   ARGV[4] channel   ARGV[5] 1 if listeners may be on other servers
--
-- Returns 1 and how many wait for the lock, or 0 if this grant does not hold it.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  local record = redis.call('GET', KEYS[2])
  return record and string.find(record, ARGV[2], 17, true) and 1 or 0
end
-- The lock first: a server out of memory lets a script write that has begun to.
redis.call('DEL', KEYS[1])
if redis.call('APPEND', KEYS[2], ARGV[2]) == #ARGV[2] then -- it was gone
  redis.call('SET', KEYS[2], string.sub(ARGV[1], -16) .. ARGV[2])
  if ARGV[3] ~= '0' then
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
  end
end
-- As in wake.lua.
local listeners = 0
if ARGV[5] == '0' then
  listeners = redis.pcall('PUBLISH', ARGV[4], '')
  if listeners == 0 or type(listeners) ~= 'number' then
    return 1
  end
end
redis.pcall('PUBLISH', ARGV[4], string.sub(ARGV[1], -16) .. ' ' .. listeners)
return 1 + listeners
