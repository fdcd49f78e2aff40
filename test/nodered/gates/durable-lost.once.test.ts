/**
 * The file of a durable gate is deleted while clients post to it: no client is told that its work is kept when it is
 * not, the gate closes and says so, and no restart begins the file anew.
 */
import assert from 'node:assert/strict';
import { appendFileSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { collector, dispatchGate, httpIn, httpOut, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, NodeRed } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';
import { allGone, killStarted } from '../../fixtures/processes.ts';
import { NO_SQLITE } from '../../store/bed.ts';

const LANES = 8;
/** Node-RED takes seconds to start. */

let folder: string;
let effects: string;

function flows(): FlowNode[] {
  return [
    TAB,
    runtime(),
    httpIn('in', '/jobs/:id', 'name'),
    node('name', 'change', ['gate'], { rules: [{ t: 'set', p: 'jobId', pt: 'msg', to: 'req.params.id', tot: 'msg' }] }),
    dispatchGate('gate', 'work', 'answers', { store: 'durable', maxSys: '8', capacity: 10_000 }),
    httpOut('answers'),
    stage('work', `require('node:fs').appendFileSync(${JSON.stringify(effects)}, input.id + '\\n'); return 1;`, 'done'),
    collector('done', 'sink'),
    sink('sink'),
  ];
}

function effectsSoFar(): Set<string> {
  return new Set(readFileSync(effects, 'utf8').split('\n').slice(0, -1));
}

async function post(url: string, id: string): Promise<Response | null> {
  const body = JSON.stringify({ id });
  const headers = { 'Content-Type': 'application/json' };
  return fetch(`${url}/jobs/${id}`, { method: 'POST', headers, body }).catch(() => null);
}

/** Clients that post one item after the other until they are stopped. */
class Load {
  readonly accepted: string[] = [];
  /** Codes of those that were refused. */
  readonly refused: string[] = [];
  readonly #lanes: Promise<void>[];
  #isOver = false;

  constructor(url: string, prefix: string) {
    this.#lanes = Array.from({ length: LANES }, async (_, lane) => {
      for (let n = 0; !this.#isOver; n += 1) await this.#postOne(url, `${prefix}-${lane}-${n}`);
    });
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#lanes);
  }

  async #postOne(url: string, id: string): Promise<void> {
    const response = await post(url, id);
    if (response?.status === 202) this.accepted.push(id);
    if (response?.status === 503) {
      const { error } = (await response.json()) as { error: { code: string } };
      this.refused.push(error.code);
    } else {
      await response?.arrayBuffer();
    }
  }
}

describe('the file of a durable gate', { skip: NO_SQLITE }, () => {
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'modelet-lost-'));
    effects = join(folder, 'effects');
    appendFileSync(effects, '');
  });
  after(async () => {
    try {
      await allGone();
    } finally {
      killStarted();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test('is moved away under load: the gate closes and says so everywhere, and loses nothing when it is back', async (t) => {
    const red = await NodeRed.start();
    t.after(() => red.stop());
    await red.deployReady(flows());
    const file = join(red.userDir, 'modelets', 'gate.sqlite');
    const load = new Load(red.url, 'moved');
    t.after(() => load.stop());
    await until('some are accepted', () => load.accepted.length >= 50);
    renameSync(file, `${file}.elsewhere`);
    await until('the gate says so', async () => (await red.gate('gate')).store?.error !== null);
    const gate = await red.gate('gate');
    assert.equal(gate.open, false);
    assert.match(gate.why, /^closed: the store .*gate\.sqlite is missing: put back/);
    await until('the badge says so', () => red.badges.get('gate')?.text?.startsWith('the store gate.sqlite'));
    const before = load.accepted.length;
    const asked = load.refused.length;
    await until('others are refused', () => load.refused.length >= asked + 50);
    assert.equal(load.accepted.length, before, 'nothing is accepted while it is away');
    assert.deepEqual([...new Set(load.refused)], ['store_unavailable']);
    const metrics = await (await fetch(`${red.url}/admin/modelets/metrics`)).text();
    assert.match(metrics, /modelet_gate_store_available\{[^}]*gate="gate"[^}]*\} 0/);

    renameSync(`${file}.elsewhere`, file);
    await until('it accepts again', () => load.accepted.length > before + 50);
    await load.stop();
    await until('all that was accepted is done', () => {
      const done = effectsSoFar();
      return load.accepted.every((id) => done.has(id));
    });
  });

  test('is deleted under load, then Node-RED is killed: the next start creates no file until the marker is deleted', async (t) => {
    const red = await NodeRedProcess.start(flows());
    t.after(() => red.end());
    const file = join(red.userDir, 'modelets', 'gate.sqlite');
    const load = new Load(red.url, 'deleted');
    await until('some are accepted', () => load.accepted.length >= 50);
    for (const name of [file, `${file}-wal`, `${file}-journal`]) rmSync(name, { force: true });
    await until('others are refused', () => load.refused.length >= 50);
    red.kill('SIGKILL');
    await load.stop();
    await red.exited();
    assert.deepEqual([...new Set(load.refused)], ['store_unavailable']);

    await red.start();
    const isClosed = async (): Promise<boolean> => (await red.snapshot()).gates[0]?.store?.error !== null;
    await until('the gate says so', isClosed);
    const { gates } = await red.snapshot();
    assert.deepEqual([gates[0]?.open, existsSync(file)], [false, false]);
    assert.match(gates[0]?.why ?? '', /gate\.sqlite is missing/);
    assert.equal((await post(red.url, 'late'))?.status, 503);

    rmSync(`${file}.known`);
    await until('it begins anew', async () => (await post(red.url, 'anew'))?.status === 202);
    await until('and works', () => effectsSoFar().has('anew'));
  });
});
