-- Reads a lock.
--
-- KEYS[1] lock
--
-- Returns {value, ms left}, or nil if the lock is free.
local value = redis.call('GET', KEYS[1])
return value and {value, redis.call('PTTL', KEYS[1])}
