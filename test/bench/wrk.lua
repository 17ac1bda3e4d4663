-- Requests for wrk: each of another user, in turn, and each POST with a new plant ID.
-- Arguments: GET or POST, the file of tokens, how many of its users, the first ID.

local heads = {}
local users, user, id, creates

function init(args)
  creates = args[1] == 'POST'
  users, user, id = tonumber(args[3]), 0, tonumber(args[4])
  local token = io.lines(args[2])
  local start = args[1] .. ' ' .. wrk.path .. ' HTTP/1.1\r\nHost: ' .. wrk.headers['Host'] .. '\r\nAuthorization: Bearer '
  local rest = '\r\n'
  if creates then
    rest = '\r\nContent-Type: application/json\r\nContent-Length: ' .. #plant(id) .. '\r\n'
  end
  for i = 1, users do
    heads[i] = start .. token() .. rest .. '\r\n'
  end
end

function request()
  user = user % users + 1
  if not creates then return heads[user] end
  id = id + 1
  return heads[user] .. plant(id)
end

-- IDs of one run have the same number of digits.
function plant(id)
  local digits = string.format('%d', id)
  return '{"id":' .. digits .. ',"name":"Fern number ' .. digits .. '","tag":"indoor"}'
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"us":%d,"p50":%d,"p99":%d,"errors":{"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d}}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.timeout, errors.status
  ))
end
