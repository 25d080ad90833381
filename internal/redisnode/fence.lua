-- Functions for the scripts that touch a fence, except the two that every use of a
-- lock runs: there a function would cost as much as a command.
--
-- A fence is a string: the highest token that was granted, refused for good or
-- raised to, in 16 digits, and then for each of the last releases a space and its id
-- of 19 digits. A grant forgets all but the last of them.

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- read_fence returns a fence's token and its last release; 0 and '' if there is none.
local function read_fence(key)
  local record = redis.call('GET', key)
  if not record then
    return 0, ''
  end
  local token = tonumber(string.sub(record, 1, 16))
  if not token then
    error('the fence record is damaged')
  end
  return token, #record > 16 and string.sub(record, -20) or ''
end

-- too_far says whether a fence must not be lifted to token.
local function too_far(token, fence, time)
  return token > math.max(time + LEAD, fence + STEP)
end

-- digits writes a token, which may be too long for how Lua writes numbers.
local function digits(token)
  return string.format('%016.0f', token)
end

-- needless says whether a token is no good as a fence where there is none: it is so far
-- behind the clock that it is refused anyway. As a fence it would let those just above
-- it in, which could be below a fence that has expired.
local function needless(token, fence, time)
  return fence == 0 and token < time - LAG
end

-- write_fence stores a fence until retention ms (0: for ever) after the later of
-- the fence and the clock, and ttl ms more; but for least ms, if that is given.
local function write_fence(key, token, release, time, ttl, retention, least)
  if retention == 0 then
    redis.call('SET', key, digits(token) .. release)
  else
    local keep = math.ceil(math.max(0, token - time) / 1000) + ttl + retention
    redis.call('SET', key, digits(token) .. release, 'PX', math.max(keep, least or 0))
  end
end

-- lift_fence stores the fence of a lock that another grant may hold, and for longer:
-- it is kept for no less than it was to be. Where there is none, it is no further behind
-- the clock than LAG: see needless.
local function lift_fence(key, token, release, time, retention)
  local left = redis.call('PTTL', key)
  if left == -2 then
    token = math.max(token, time - LAG)
  end
  write_fence(key, token, release, time, 0, left == -1 and 0 or retention, left)
end
