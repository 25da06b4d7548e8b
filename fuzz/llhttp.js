// llhttp, the parser of Node.js: reads requests from standard input and says how it sees each.
//
// A line of input has the requests of a connection in hexadecimal, separated by spaces. Each must be exactly one
// request: the last byte completes it, and no byte before. A line of output has one item for each, separated by
// tabs: method, target and body in hexadecimal, or what is wrong.
'use strict';
const { HTTPParser, methods, allMethods } = process.binding('http_parser');

function newParser(seen) {
  const parser = new HTTPParser();
  parser.initialize(HTTPParser.REQUEST, {});
  // If there are many headers, the target comes with the first. Trailers come here too.
  parser[HTTPParser.kOnHeaders | 0] = (_, target) => { if (!seen.method) seen.target += target; };
  parser[HTTPParser.kOnHeadersComplete | 0] = (major, minor, headers, method, target) => {
    seen.method = (allMethods || methods)[method];
    seen.target += target || '';
    return 0;
  };
  parser[HTTPParser.kOnBody | 0] = (piece) => { seen.body.push(Buffer.from(piece)); };
  parser[HTTPParser.kOnMessageComplete | 0] = () => { seen.complete += 1; };
  return parser;
}

function reset(seen) {
  Object.assign(seen, { method: '', target: '', body: [], complete: 0 });
}

function read(parser, seen, request) {
  reset(seen);
  for (const part of [request.subarray(0, -1), request.subarray(-1)]) {
    if (seen.complete) return 'complete before its end';
    const parsed = parser.execute(part);
    if (parsed instanceof Error) return `refused: ${parsed.code} ${parsed.reason}`;
    if (parsed !== part.length) return `read ${parsed} of ${part.length} bytes`;
  }
  if (seen.complete !== 1) return `${seen.complete} requests`;
  return `${seen.method} ${seen.target} ${Buffer.concat(seen.body).toString('hex')}`;
}

require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const seen = {};
  reset(seen);
  const parser = newParser(seen);
  const items = line.split(' ').map((request) => read(parser, seen, Buffer.from(request, 'hex')));
  process.stdout.write(items.join('\t') + '\n');
});
