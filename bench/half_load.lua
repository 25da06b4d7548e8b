-- As load.lua, but every connection waits a while between an answer and its next request, so that the server is
-- busy for about half of the time. Arguments: the file of requests, the mean wait in milliseconds.
local requests, at, wait = {}, 0, 1

function init(args)
  local file = io.open(args[1], "rb")
  local text = file:read("*a")
  file:close()
  for request in text:gmatch("(.-)\n%-%-%-%-\n") do
    requests[#requests + 1] = request
  end
  wait = tonumber(args[2])
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function delay()
  return math.random(0, 2 * wait)
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    "\nRESULT requests=%d micros=%d p50=%d p90=%d p99=%d p999=%d connect=%d read=%d write=%d timeout=%d bad=%d\n",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(90), latency:percentile(99),
    latency:percentile(99.9), errors.connect, errors.read, errors.write, errors.timeout, errors.status))
end
