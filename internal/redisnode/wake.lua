-- wake tells those that wait for a lock that it is free, and how many they are, as
-- far as this server knows. It returns that number. A first message, without a text,
-- is only to count them, unless they may be on other servers too (far is '1'). A user
-- who may not publish has waiters that poll.
local function wake(channel, token, far)
  local listeners = 0
  if far == '0' then
    listeners = redis.pcall('PUBLISH', channel, '')
    if listeners == 0 or type(listeners) ~= 'number' then
      return 0
    end
  end
  redis.pcall('PUBLISH', channel, token .. ' ' .. listeners)
  return listeners
end
