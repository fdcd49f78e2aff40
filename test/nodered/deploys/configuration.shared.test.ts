/** Nodes that cannot be used as they are configured or wired: a red badge that says why, and an answer for each request. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { headline } from '../../../src/observe/views/words.ts';
import { idle } from '../../fixtures/badges.ts';
import { batcher, collector, endpoint, func, runtime, sink, stage, statusNode, TAB } from '../../fixtures/flow.ts';
import { Gate } from '../../fixtures/gate.ts';
import { type Badge, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const ECHO = 'return input;';

process.env['MODELET_TEST_WORKERS'] = '2';
const nodeRed = useNodeRed({
  prepare: async (nodeRed) => {
    await writeFile(join(nodeRed.userDir, 'double.cjs'), 'module.exports = (input) => ({ value: input.value * 2 });');
    await writeFile(join(nodeRed.userDir, 'text.cjs'), 'module.exports = "no modelet";');
  },
});

function whenBadge(id: string, accept: (badge: Badge, text: string) => boolean): Promise<Badge> {
  return until(`the badge of ${id} is right, not ${JSON.stringify(nodeRed.badges.get(id))}`, () => {
    const badge = nodeRed.badges.get(id);
    return badge?.text !== undefined && accept(badge, badge.text) && badge;
  });
}

/** Starts the flow with new processes: a stage that changed would be served by its old workers at first. */
async function startAnew(...flow: readonly FlowNode[]): Promise<void> {
  await nodeRed.deploy([TAB]);
  await nodeRed.deploy([TAB, ...endpoint('/use', flow.some(({ id }) => id === 'batch') ? 'batch' : 'node'), ...flow]);
}

/** `stageName`: the stage that the answer blames, if it is one. */
async function assertAnswer(status: number, code: string, message: RegExp, stageName?: string): Promise<void> {
  const response = await nodeRed.post('/use', { value: 1 });
  const text = await response.text();
  assert.equal(response.status, status, text);
  const { error } = JSON.parse(text) as { error: { code: string; message: string; stage?: string } };
  assert.equal(error.code, code);
  assert.equal(error.stage, stageName);
  assert.match(error.message, message);
}

/** Each: what is wrong, the flow behind `POST /use` (whose entry is called `node`), and what the reason says. */
const INVALID: readonly (readonly [what: string, flow: readonly FlowNode[], reason: RegExp, id?: string])[] = [
  [
    'an environment variable that is not set',
    [runtime(), stage('node', ECHO, 'collector /use', { workers: `\${MODELET_TEST_UNSET}` })],
    /Workers: .*MODELET_TEST_UNSET is not set/,
  ],
  [
    'an unreadable list of cores',
    [runtime(), stage('node', ECHO, 'collector /use', { cpus: '0,,1' })],
    /CPU pins: .*0,,1/,
  ],
  [
    'a result in the place of the HTTP client',
    [runtime(), stage('node', ECHO, 'collector /use', { output: 'res' })],
    /Output: msg\.res belongs to the HTTP client/,
  ],
  [
    'an invalid input property',
    [runtime(), stage('node', ECHO, 'collector /use', { input: 'a["' })],
    /Input: .*property expression/,
  ],
  [
    'an invalid output property',
    [runtime(), stage('node', ECHO, 'collector /use', { output: 'a..b' })],
    /Output: .*property expression/,
  ],
  [
    'an invalid number of workers',
    [runtime(), stage('node', ECHO, 'collector /use', { workers: 'many' })],
    /Workers: .*many/,
  ],
  ['init that is no JSON', [runtime(), stage('node', ECHO, 'collector /use', { init: '{' })], /Init: /],
  [
    'a file that is not there',
    [runtime(), stage('node', '', 'collector /use', { source: 'file', path: 'no/such.js' })],
    /File: no file .*no\/such\.js/,
  ],
  [
    'a folder for a file',
    [runtime(), stage('node', '', 'collector /use', { source: 'file', path: '.' })],
    /File: .*is not a file/,
  ],
  ['no path', [runtime(), stage('node', '', 'collector /use', { source: 'file', path: ' ' })], /File: .*missing/],
  ['no runtime', [stage('node', ECHO, 'collector /use', { runtime: '' })], /no runtime is selected/],
  [
    'a runtime that is disabled',
    [runtime('runtime', { d: true }), stage('node', ECHO, 'collector /use')],
    /no runtime is selected, or it is disabled/,
  ],
  [
    'a runtime that is invalid itself',
    [runtime('runtime', { timeoutMs: 'soon' }), stage('node', ECHO, 'collector /use')],
    /its runtime cannot be used: HTTP timeout/,
  ],
  ['a batcher wired to nothing', [runtime(), batcher('node', [])], /exactly one modelet stage/],
  [
    'a batcher wired to two stages',
    [runtime(), batcher('node', ['a', 'b']), stage('a', ECHO, 'collector /use'), stage('b', ECHO, 'collector /use')],
    /exactly one modelet stage/,
  ],
  ['a batcher wired to another node', [runtime(), batcher('node', 'collector /use')], /exactly one modelet stage/],
  [
    'a batch size beyond the limit',
    [runtime(), batcher('node', 'a', { maxBatchSize: '10001' }), stage('a', ECHO, 'collector /use')],
    /Batch size: .*10001/,
  ],
  [
    'two batchers of different settings on one stage',
    [
      runtime(),
      batcher('node', 'a', { maxBatchSize: '2' }),
      batcher('other', 'a', { maxBatchSize: '3' }),
      stage('a', ECHO, 'collector /use'),
    ],
    /batchers with different settings feed stage a/,
  ],
];

describe('configuration: invalid values', () => {
  for (const [what, flow, reason] of INVALID) {
    test(`${what}: the badge and the log have the reason, and clients get 503 config_invalid at once`, async () => {
      const logged = nodeRed.logs.length;
      await nodeRed.deploy([TAB, ...endpoint('/use', 'node'), ...flow]);
      const { invalid } = await nodeRed.snapshot();
      await whenBadge('node', ({ fill }, text) => fill === 'red' && text === headline(invalid['node'] ?? ''));
      const entry = flow.find(({ id }) => id === 'node');
      await assertAnswer(503, 'config_invalid', reason, entry?.type === 'modelet-stage' ? 'node' : undefined);
      assert.match((await nodeRed.snapshot()).invalid['node'] ?? '', reason);
      assert.ok(nodeRed.logs.slice(logged).some((line) => /^20 /.test(line) && reason.test(line)));
    });
  }

  test('a deploy that repairs it removes the badge', async () => {
    await nodeRed.deploy([
      TAB,
      runtime(),
      ...endpoint('/use', 'node'),
      stage('node', ECHO, 'collector /use', { cpus: 'x' }),
    ]);
    await whenBadge('node', ({ fill }, text) => fill === 'red' && text.startsWith('CPU pins: '));
    await nodeRed.deploy([TAB, runtime(), ...endpoint('/use', 'node'), stage('node', ECHO, 'collector /use')]);
    await whenBadge('node', ({ fill }, text) => fill === 'green' && idle(1).test(text));
    assert.equal((await nodeRed.post('/use', { value: 1 })).status, 200);
  });

  test('the other stages of a chain with an invalid stage answer, too', async () => {
    await nodeRed.deploy([
      TAB,
      runtime(),
      ...endpoint('/use', 'good'),
      stage('good', ECHO, 'node'),
      stage('node', ECHO, 'collector /use', { init: '[' }),
    ]);
    await assertAnswer(503, 'config_invalid', /Init: /, 'node');
  });
});

describe('configuration: valid values', () => {
  test('a property may name an environment variable that is set', async () => {
    await startAnew(runtime(), stage('node', ECHO, 'collector /use', { workers: `\${MODELET_TEST_WORKERS}` }));
    const { runtimes } = await nodeRed.whenReady();
    assert.equal(runtimes[0]?.stages[0]?.workers.length, 2);
  });

  test('a relative path starts at the user directory, and a CommonJS module is a modelet', async () => {
    await startAnew(runtime(), stage('node', '', 'collector /use', { name: '', source: 'file', path: 'double.cjs' }));
    const { runtimes } = await nodeRed.whenReady();
    // Named after its file, as it has no name.
    assert.equal(runtimes[0]?.stages[0]?.name, 'double');
    assert.deepEqual(await (await nodeRed.post('/use', { value: 4 })).json(), { value: 8 });
  });

  test('a flow of an older version with few properties takes the defaults', async () => {
    await startAnew(
      { id: 'runtime', type: 'modelet-runtime' },
      { id: 'batch', type: 'modelet-batcher', z: 'tab', wires: [['node']] },
      { id: 'node', type: 'modelet-stage', z: 'tab', runtime: 'runtime', wires: [['collector /use']] },
    );
    const { runtimes } = await nodeRed.whenReady();
    assert.deepEqual(runtimes[0]?.stages[0]?.batching, { policy: 'greedy', maxBatchSize: 32, maxWaitMs: 10 });
    assert.deepEqual(await (await nodeRed.post('/use', { value: 1 })).json(), { value: 1 });
  });

  test('a core that this machine lacks gives a yellow badge, and the stage works', async () => {
    await startAnew(runtime(), stage('node', ECHO, 'collector /use', { cpus: '0,4000' }));
    await nodeRed.whenReady();
    assert.equal((await nodeRed.post('/use', { value: 1 })).status, 200);
    await whenBadge(
      'node',
      ({ fill }, text) => fill === 'yellow' && /^(idle, 2 workers|\d of 2 busy), not pinned$/.test(text),
    );
  });
});

describe('configuration: a stage that does not start', () => {
  const BROKEN: readonly (readonly [
    what: string,
    properties: Record<string, unknown>,
    cause: RegExp,
    badge?: RegExp,
  ])[] = [
    ['code that is no JavaScript', { code: 'return (' }, /Unexpected token/],
    ['On Start that throws', { setup: 'throw new Error("no such model");' }, /no such model/],
    [
      'a module that is not installed',
      { code: ECHO, setup: 'require("no-such-module");' },
      /no-such-module/,
      /module 'no-such/,
    ],
    [
      'a file that exports no modelet',
      { source: 'file', path: 'text.cjs' },
      /must export a function or a class/,
      /text.cjs/,
    ],
    [
      'a start that takes too long',
      { setup: 'await new Promise(() => {});', startTimeoutMs: '100' },
      /within \d+ ms \(Start timeout\): [\d.]+ m?s so far/,
      /Start timeout, [\d.]+ m?s so far/,
    ],
  ];
  for (const [what, properties, cause, shown = cause] of BROKEN) {
    test(`${what}: the badge has the cause, and the answer is 503 at once`, async () => {
      // A worker may take long to start on a slow machine, and to fail.
      await startAnew(runtime('runtime', { timeoutMs: '200000' }), stage('node', ECHO, 'collector /use', properties));
      await assertAnswer(503, 'stage_unavailable', cause, 'node');
      await whenBadge('node', ({ fill }, text) => fill === 'red' && shown.test(text));
    });
  }
});

describe('configuration: Status nodes', () => {
  test('see a stage start, work and rest, and a batcher beside it', async () => {
    const gate = new Gate();
    await nodeRed.deploy([TAB]);
    await nodeRed.deploy([
      TAB,
      runtime(),
      batcher('batch', 'stage'),
      stage('stage', gate.code(), 'collect', { workers: '2' }),
      collector('collect', 'end'),
      sink('end'),
      statusNode('status', ['stage', 'batch'], 'seen'),
      func('seen', 'return null;'),
    ]);
    const seen = nodeRed.inputs('seen');
    const from =
      (id: string, pattern: RegExp, after = 0) =>
      () =>
        seen.slice(after).some((msg) => {
          const { text, source } = msg['status'] as { text: string; source: { id: string } };
          return source.id === id && pattern.test(text);
        });
    await until('the stage is ready', from('stage', idle(2)));
    await until('the batcher is shown', from('batch', /^no batch yet, up to 32$/));
    for (let number = 0; number < 40; number += 1) nodeRed.send('batch', { payload: number });
    await until('the stage works', from('stage', /^2 of 2 busy/));
    await gate.open();
    const worked = seen.length;
    await until('it rests again', from('stage', idle(2), worked));
    await until('the batcher tells of its batches', from('batch', /^batches of [\d.]+$/));
    await gate.remove();
  });
});
