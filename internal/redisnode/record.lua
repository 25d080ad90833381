-- What the node knows of the lock's tokens, for acquire.lua.
local record = redis.call('GET', KEYS[2])
