// Posts digits to an endpoint at a steady rate, in small bursts so that batches form; one in forty is no image.
//   node scripts/load.mjs URL REQUESTS-PER-SECOND
// It ends with the process that started it.
import { Agent, request } from 'node:http';
import { readImages } from './node-red.mjs';

const BURST_MS = 100;
const BAD_EVERY = 40;
/** A machine that is too slow for the rate gets less, not a pile of connections that never shrinks. */
const MOST_OPEN = 64;

const [url, rate] = process.argv.slice(2);
const bodies = readImages().map(({ image }) => JSON.stringify({ image }));
const bad = JSON.stringify({ image: 'of a cat' });
const agent = new Agent({ keepAlive: true });
const startedAt = performance.now();
let turns = 0;
let open = 0;

// By the time that has passed, not burst by burst: the rate holds also where timers are late.
setInterval(() => {
  const due = Math.floor(((performance.now() - startedAt) / 1000) * Number(rate));
  for (; turns < due; turns += 1) if (open < MOST_OPEN) post(turns);
}, BURST_MS);

function post(turn) {
  const body = turn % BAD_EVERY === BAD_EVERY - 1 ? bad : bodies[turn % bodies.length];
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
  open += 1;
  // Whatever the answer is, the dashboard has it. While Node-RED deploys or ends there may be none.
  request(url, { method: 'POST', agent, headers })
    .on('response', (response) => response.resume())
    .on('error', () => {})
    .on('close', () => {
      open -= 1;
    })
    .end(body);
}

process.on('disconnect', () => process.exit());
