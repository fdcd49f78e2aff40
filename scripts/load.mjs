// Posts digits to an endpoint at a steady rate, in small bursts so that batches form; one in forty is not an image.
//   node scripts/load.mjs URL REQUESTS-PER-SECOND
// Ends with the process that started it.
import { Agent, request } from 'node:http';
import { readImages } from './node-red.mjs';

const BURST_MS = 100;
const BAD_EVERY = 40;
/** Most open requests. On a machine too slow for the rate, skip requests instead of piling up connections. */
const MOST_OPEN = 64;

const [url, rate] = process.argv.slice(2);
const bodies = readImages().map(({ image }) => JSON.stringify({ image }));
const bad = JSON.stringify({ image: 'of a cat' });
const agent = new Agent({ keepAlive: true });
const startedAt = performance.now();
let turns = 0;
let open = 0;

// Count requests by elapsed time, not per burst, so that late timers do not lower the rate.
setInterval(() => {
  const due = Math.floor(((performance.now() - startedAt) / 1000) * Number(rate));
  for (; turns < due; turns += 1) if (open < MOST_OPEN) post(turns);
}, BURST_MS);

function post(turn) {
  const body = turn % BAD_EVERY === BAD_EVERY - 1 ? bad : bodies[turn % bodies.length];
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  open += 1;
  // Ignore answers and errors: the dashboard counts them. While Node-RED deploys or ends, there may be no answer.
  request(url, { method: 'POST', agent, headers })
    .on('response', (response) => response.resume())
    .on('error', () => {})
    .on('close', () => {
      open -= 1;
    })
    .end(body);
}

process.on('disconnect', () => process.exit());
