-- Tells what this node is and since when it remembers its grants, and marks it so.
--
-- KEYS[1] marker
-- ARGV[1] what the client calls the membership that the node is to be of; '' only to look
-- ARGV[2] run id of the process whose disk has all that it answered for; '' if it has not
-- ARGV[3] until when it can be relied on that there has never been a grant, us since 1970;
--         0 if it cannot
--
-- Returns {run id, role, time, marker}. The marker is '' if there is none and none was
-- asked for. It is made of: the run id of the process that it was written to; since when
-- the node remembers, us since 1970; 1 if the process's disk had all that it answered
-- for; why the node may have forgotten what was before; the membership.
local function field(section, name)
  return string.match(redis.call('INFO', section), '\r\n' .. name .. ':([^\r\n]*)') or ''
end

local t = redis.call('TIME')
local time = t[1] * 1000000 + t[2]
local run, role = field('server', 'run_id'), field('replication', 'role')
local marker = redis.call('GET', KEYS[1]) or ''
local on_disk = ARGV[2] == run
local ran, since, durable, reason, membership = string.match(marker, '^(%S+) (%d+) ([01]) (%S+) (%S+)$')

if ARGV[1] == '' or role ~= 'master' or ran == run or (membership and membership ~= ARGV[1]) then
  return {run, role, string.format('%.0f', time), marker}
end
-- One whose disk has not all now may have started from a snapshot, whatever it had before.
if ran and durable == '1' and on_disk and field('replication', 'second_repl_offset') == '-1' then
  reason = 'kept' -- since stands; it was no replica, which may lack what its master had
elseif ran then
  since, reason = string.format('%.0f', time), 'restarted'
elseif time <= tonumber(ARGV[3]) then
  since, reason = '0', 'first'
else
  since, reason = string.format('%.0f', time), 'new'
  -- What was never written to has forgotten nothing since it started. It counts in
  -- seconds, and what it saved just after the start could be all that it had.
  local started = t[1] - tonumber(field('server', 'uptime_in_seconds')) + 1
  if field('persistence', 'rdb_changes_since_last_save') == '0'
      and tonumber(field('persistence', 'rdb_last_save_time')) <= started then
    since, reason = string.format('%.0f', (started + 1) * 1000000), 'empty'
  end
end
marker = table.concat({run, since, on_disk and '1' or '0', reason, ARGV[1]}, ' ')
redis.call('SET', KEYS[1], marker)
return {run, role, string.format('%.0f', time), marker}
