-- Sends prepared requests one after the other and starts again after the last one.
-- Argument: the file of requests, each followed by a line "----".
local requests, at = {}, 0

function init(args)
  local file = io.open(args[1], "rb")
  local text = file:read("*a")
  file:close()
  for request in text:gmatch("(.-)\n%-%-%-%-\n") do
    requests[#requests + 1] = request
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    "\nRESULT requests=%d micros=%d p50=%d p99=%d connect=%d read=%d write=%d timeout=%d\n",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.timeout))
  io.write(string.format("STATUS bad=%d\n", errors.status))
end
