-- Ends the grant that was seen, whoever holds it.
--
-- KEYS[1] lock
-- ARGV[1] SHA-1 of the value that was seen, in hex  ARGV[2] token  ARGV[3] channel
-- ARGV[4] 1 if listeners may be on other servers
--
-- Returns 1, or 0 if the lock has another value by now.
local current = redis.call('GET', KEYS[1])
if not current or redis.sha1hex(current) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
wake(ARGV[3], ARGV[2], ARGV[4])
return 1
