-- What every script that touches a fence begins with.
--
-- A fence is a string "TOKEN ID...": the highest token that was granted, refused for
-- good or raised to, and the ids of the last releases.

-- LEAD is how far ahead of the server's clock a fence may be lifted, STEP how far
-- above itself where it is ahead of the clock already; both in microseconds.
local LEAD, STEP = 10000000, 1048576

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- read_fence returns a fence's token and last release; 0 and '' if there is none.
local function read_fence(key)
  local record = redis.call('GET', key)
  if not record then
    return 0, ''
  end
  local token, release = string.match(record, '^(%d+).-(%w*)$')
  if not token then
    error('the fence record is damaged')
  end
  return tonumber(token), release
end

-- too_far says whether a fence must not be lifted to token.
local function too_far(token, fence, time)
  return token > math.max(time + LEAD, fence + STEP)
end

-- write_fence stores a fence until retention ms (0: for ever) after the later of
-- the fence and the clock, and ttl ms more. The token is text: it may be too long
-- for how Lua writes numbers.
local function write_fence(key, token, release, time, ttl, retention)
  local record = token .. ' ' .. release
  if retention == 0 then
    redis.call('SET', key, record)
  else
    redis.call('SET', key, record, 'PX', math.ceil(math.max(0, token - time) / 1000) + ttl + retention)
  end
end

local function digits(token)
  return string.format('%.0f', token)
end

-- wake tells those that wait for a lock that it is free, and how many they are, as
-- far as this server knows. It returns that number. Listeners may be on other
-- servers where far is '1'. A user who may not publish has waiters that poll.
local function wake(channel, token, far)
  local reply = redis.pcall('PUBSUB', 'NUMSUB', channel)
  local listeners = reply[2] or 0
  if listeners > 0 or far == '1' then
    redis.pcall('PUBLISH', channel, token .. ' ' .. listeners)
  end
  return listeners
end
