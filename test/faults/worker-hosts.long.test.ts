/**
 * Worker hosts under all that can happen to them at once: 10,000 requests pass two stages on two hosts while hosts, the server and the
 * engine are killed, the network is cut and slow, and poison kills workers. Each client has one answer, no item is lost,
 * and only those run twice that were on their way when something died. Only the long form runs it.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { folderFor } from '../fixtures/folder.ts';
import { startHost } from '../fixtures/headless.ts';
import { Link } from '../fixtures/link.ts';
import { until } from '../fixtures/polling.ts';
import { kill9 } from '../fixtures/processes.ts';
import { Redis, WITHOUT_REDIS } from '../fixtures/redis.ts';
import { startService } from '../fixtures/service.ts';

const ITEMS = 10_000;
const IN_FLIGHT = 64;
const BATCH = 8;
const TIMEOUT_MS = 60_000;
const SECRET = 'known to both';
/** Answers after which a client asks again, because the request may not have run. */
const AGAIN: readonly string[] = ['engine_lost', 'stage_unavailable', 'capacity_exceeded', 'worker_lost'];
const POISON = [1234, 4321, 7777];

const skip = process.env['TEST_FULL'] === '1' ? WITHOUT_REDIS : 'the long form only: npm run test:full';

test('10,000 requests over two hosts, through everything that can die', { skip }, async (t) => {
  const folder = folderFor(t);
  const [effects, secretFile, data] = ['effects', 'secret', 'redis'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(effects, '');
  writeFileSync(secretFile, SECRET);
  mkdirSync(data);
  const redis = await Redis.start(data);
  t.after(() => redis.kill());
  const links = [await Link.to(redis.port, t), await Link.to(redis.port, t)] as const;
  const startAt = (link: Link): ReturnType<typeof startHost> =>
    startHost(t, '--broker', `redis://127.0.0.1:${link.port}`, '--runtime', 'faults', '--secret-file', secretFile);
  const [first] = links.map(startAt) as [ReturnType<typeof startHost>, ReturnType<typeof startHost>];

  const code = `if (input.poison) process.exit(3);
    require('node:fs').appendFileSync(${JSON.stringify(effects)}, input.n + '\\n');
    await new Promise((done) => setTimeout(done, 2));
    return input.n * 2;`;
  const remote = { url: redis.url, prefix: 'modelet', username: '', password: '', tls: null };
  const place = { ...remote, runtime: 'faults', secret: SECRET };
  const stage = { batch: { maxBatchSize: BATCH }, retryLost: true, remote: place };
  // Hosts run both stages as one row.
  const stages = [
    { ...stage, id: 'prepare', inline: 'return input;' },
    { ...stage, id: 'work', inline: code },
  ];
  const service = await startService({ stages });
  t.after(() => service.end());
  const ready = (hosts: number): Promise<unknown> =>
    until(`${hosts} hosts are ready`, () => service.stage('work').ready === hosts);
  await ready(2);

  let answered = 0;
  let next = 0;
  const wrong: string[] = [];
  /** Requests that asked again, by the answer that made them. */
  const again: Record<string, number> = {};
  async function client(): Promise<void> {
    while (next < ITEMS) {
      const n = next;
      next += 1;
      for (;;) {
        const poison = POISON.includes(n);
        const answer = await service.answer({ n, poison }, { timeoutMs: TIMEOUT_MS, limitMs: 2 * TIMEOUT_MS });
        // A worker that dies of an item that it had alone is the item's fault.
        if (poison && answer.code === 'worker_lost') break;
        if (answer.code === 'ok' && answer.value === n * 2) break;
        if (!AGAIN.includes(answer.code)) {
          wrong.push(`${n}: ${answer.code} ${answer.error?.message ?? answer.value}`);
          break;
        }
        again[answer.code] = (again[answer.code] ?? 0) + 1;
        await pause(50);
      }
      answered += 1;
    }
  }
  const clients = Promise.all(Array.from({ length: IN_FLIGHT }, client));
  const reached = (share: number): Promise<unknown> =>
    until(`${share * 100} % are answered`, () => answered >= share * ITEMS, 2 * TIMEOUT_MS);

  await reached(0.1);
  first.child.kill('SIGKILL');
  await reached(0.2);
  startAt(links[0]);
  await ready(2);
  await reached(0.35);
  links[1].cut();
  await reached(0.45);
  links[1].heal();
  await ready(2);
  await reached(0.55);
  await redis.kill();
  await pause(1000);
  redis.restart();
  await reached(0.65);
  links[0].slow(20);
  await reached(0.75);
  kill9(service.enginePid);
  await clients;

  assert.deepEqual(wrong, []);
  const runs = readFileSync(effects, 'utf8').split('\n').slice(0, -1).map(Number);
  const ran = new Set(runs);
  const lost = Array.from({ length: ITEMS }, (_, n) => n).filter((n) => !POISON.includes(n) && !ran.has(n));
  t.diagnostic(`${runs.length - ran.size} ran twice; asked again: ${JSON.stringify(again)}`);
  assert.deepEqual(lost, []);
  // Five things died or were cut, and each poison took its batch with it, once.
  const most = 5 * IN_FLIGHT + POISON.length * BATCH;
  assert.ok(runs.length - ran.size <= most, `${runs.length} runs`);
  await until('the server keeps nothing of them', async () => {
    const keys = (await redis.run('KEYS', 'modelet:*')) as string[];
    return !keys.some((key) => /:(batch|result|wait|active|prioritized)(:|$)/.test(key));
  });
});
