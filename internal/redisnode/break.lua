-- Ends the grant that was seen, whoever holds it.
--
-- KEYS[1] lock   KEYS[2] fence
-- ARGV[1] SHA-1 of the value that was seen, in hex  ARGV[2] token  ARGV[3] channel
-- ARGV[4] 1 if listeners may be on other servers   ARGV[5] 1 on one node of several
--
-- Returns 1, or 0 if the lock has another value by now. On one node of several a
-- renewal must not put it back, which has seen it elsewhere: see drop.lua.
local current = redis.call('GET', KEYS[1])
if not current or redis.sha1hex(current) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
if ARGV[5] == '1' and redis.call('EXISTS', KEYS[2]) == 1 then
  redis.pcall('INCR', KEYS[2])
end
wake(ARGV[3], ARGV[2], ARGV[4])
return 1
