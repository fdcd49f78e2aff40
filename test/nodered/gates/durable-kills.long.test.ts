/**
 * kill -9 of Node-RED, of the engine and of the store's process while items are accepted and worked on: what was
 * accepted is worked on, all of it; twice only what was in flight at a kill; and each has exactly one end. Long form:
 * 10,000 items, ten kills of Node-RED and ten of the engine.
 */
import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { openDatabase } from '../../../src/gate/store/process/sqlite.ts';
import { batcher, collector, dispatchGate, httpIn, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import type { FlowNode } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';
import { allGone, kill9, killStarted } from '../../fixtures/processes.ts';
import { NO_SQLITE } from '../../store/bed.ts';

const LONG = process.env['TEST_FULL'] === '1';
const ITEMS = LONG ? 10_000 : 900;
const KILLS = LONG ? 10 : 2;
const IN_FLIGHT = 32;
const LANES = 8;
const POISON = 'poison';
/** Longest that nothing may happen: Node-RED takes seconds to start. */
const STUCK_MS = 120_000;

let folder: string;
let effects: string;
let red: NodeRedProcess;

function flows(): FlowNode[] {
  return [
    TAB,
    runtime(),
    httpIn('in', '/jobs/:id', 'name'),
    {
      ...sink('name'),
      type: 'change',
      rules: [{ t: 'set', p: 'jobId', pt: 'msg', to: 'req.params.id', tot: 'msg' }],
      wires: [['gate']],
    } as FlowNode,
    dispatchGate('gate', 'batch', [], { store: 'durable', maxSys: String(IN_FLIGHT), capacity: ITEMS * 2 }),
    batcher('batch', 'work', { maxBatchSize: 8 }),
    // The effect comes first, and then its end.
    stage(
      'work',
      `if (input.id === '${POISON}') process.exit(3);
       require('node:fs').appendFileSync(${JSON.stringify(effects)}, input.id + '\\n');
       return { done: input.id };`,
      'done',
    ),
    collector('done', 'sink'),
    sink('sink'),
  ];
}

function effectsSoFar(): string[] {
  return readFileSync(effects, 'utf8').split('\n').slice(0, -1);
}

/** Posts it until a server says that it is accepted, as a persistent client does. */
async function accept(agent: Agent, id: string): Promise<void> {
  await until(`${id} is accepted`, async () => (await post(agent, id)) === 202, STUCK_MS);
}

function post(agent: Agent, id: string): Promise<number> {
  return new Promise((resolve) => {
    const headers = { 'Content-Type': 'application/json' };
    const sent = request(`${red.url}/jobs/${id}`, { method: 'POST', agent, headers }, (response) => {
      response.resume().on('close', () => resolve(response.statusCode ?? 0));
    });
    sent.on('error', () => resolve(0));
    sent.end(JSON.stringify({ id }));
  });
}

/** Kills one of the processes. */
const KILL = {
  engine: async (): Promise<void> => {
    const { runtimes } = await red.whenReady();
    kill9(runtimes[0]?.engine.pid);
  },
  store: async (): Promise<void> => {
    const { gates } = await red.whenReady();
    kill9(gates[0]?.store?.pid);
  },
  'Node-RED': async (): Promise<void> => {
    red.kill('SIGKILL');
    await red.exited();
    await red.start();
  },
} as const;

describe('kill -9 of the processes around a durable gate', { skip: NO_SQLITE }, () => {
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'modelet-durable-'));
    effects = join(folder, 'effects');
    appendFileSync(effects, '');
    red = await NodeRedProcess.start(flows());
  });
  after(async () => {
    try {
      await red.end();
      await allGone();
    } finally {
      killStarted();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test('every accepted message runs and ends once, except that messages in flight may run again', async (t) => {
    const ids = Array.from({ length: ITEMS }, (_, index) => `item-${index}`);
    ids.splice(ITEMS >> 2, 0, POISON);
    const agent = new Agent({ keepAlive: true, maxSockets: LANES });
    let next = 0;
    const lanes = Array.from({ length: LANES }, async () => {
      for (let id = ids[next++]; id !== undefined; id = ids[next++]) await accept(agent, id);
    });
    const kills = [...Array(KILLS).keys()].flatMap(() => ['engine', 'Node-RED'] as const);
    const order = [...kills, 'store' as const];
    for (const [index, what] of order.entries()) {
      // While there is work: spread over all of it.
      const enough = ((index + 1) * ITEMS) / (order.length + 2);
      await until(`${Math.round(enough)} are done`, () => effectsSoFar().length >= enough, STUCK_MS);
      await KILL[what]();
    }
    await Promise.all(lanes);
    agent.destroy();
    const left = async (): Promise<number> => {
      const { waiting, store } = (await red.snapshot().catch(() => null))?.gates[0] ?? {};
      return waiting === undefined || !store ? Number.NaN : waiting + store.running;
    };
    await until('nothing is left', async () => new Set(effectsSoFar()).size >= ITEMS && (await left()) === 0, STUCK_MS);
    red.kill('SIGTERM');
    await red.exited();

    const done = effectsSoFar();
    const unique = new Set(done);
    const lost = ids.filter((id) => id !== POISON && !unique.has(id));
    assert.deepEqual(lost, [], 'accepted minus effects');
    const duplicates = done.length - unique.size;
    t.diagnostic(`${ITEMS} items, ${order.length} kills: ${duplicates} twice`);
    assert.ok(duplicates <= order.length * IN_FLIGHT, `${duplicates} twice at ${order.length} kills`);
    const { ends, waiting } = endsOf(join(red.userDir, 'modelets', 'gate.sqlite'));
    assert.equal(ends.size, ITEMS, 'one end for each');
    assert.deepEqual(waiting, [POISON], 'and the item that kills its worker is a dead letter, alone');
    await red.start();
  });
});

/** The content of the file: ids whose outcome is a result, and ids without one. */
function endsOf(file: string): { readonly ends: Set<unknown>; readonly waiting: unknown[] } {
  const database = openDatabase(file);
  try {
    const ends = database.prepare('SELECT id FROM outcome WHERE ok = 1 AND payload IS NOT NULL').all();
    const items = database.prepare('SELECT id FROM item').all();
    return { ends: new Set(ends.map(({ id }) => id)), waiting: items.map(({ id }) => id) };
  } finally {
    database.close();
  }
}
