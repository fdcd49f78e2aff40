/** A badge begins with what is wrong or what to do, and ends before the next node of its row. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { headline, LONGEST_BADGE, stageWords } from '../../../src/observe/views/words.ts';
import { batcher, endpoint, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const MESSAGES: readonly (readonly [message: string, badge: string])[] = [
  ['no file /home/ada/.node-red/models/doubel.cjs (from "models/doubel.cjs")', 'no file doubel.cjs'],
  ['Batch size: must be <= 10000; got 10001', 'Batch size: must be <= 10000; got 10001'],
  ['source: must be one of constant, saturation, prometheus; got "x"', 'source: must be one of constant, saturation'],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference as users write it.
  ['cpus: the environment variable PINS is not set', 'cpus: ${PINS} is not set'],
  ['the module gone is not installed: run "npm install gone" in /data', 'the module gone is not installed'],
  ["SyntaxError: Unexpected token '}'", "Unexpected token '}'"],
  ["KeyError: 'table'", "KeyError: 'table'"],
  ["classify: Predict:12: Unexpected token '}'", "line 12: Unexpected token '}'"],
  [
    'classify: On Start:1: Cannot use import statement outside a module',
    'On Start:1: Cannot use import statement out\u2026',
  ],
  ['invalid syntax (bad.py, line 2)', 'line 2: invalid syntax'],
  ['the stage behind it cannot be used: no file /a/b.js', 'the stage behind it cannot be used'],
  ["Error: ENOENT: no such file, open '/srv/models/a.bin'\n    at open", "ENOENT: no such file, open 'a.bin'"],
  ['closed: sample 7.2 s old, older than 5 s', 'closed: sample 7.2 s old, older than 5 s'],
  ['closed: HTTP 503 from http://a.example/x', 'closed: HTTP 503 from http://a.example/x'],
  ['x'.repeat(500), `${'x'.repeat(LONGEST_BADGE - 1)}\u2026`],
  ['', ''],
];

describe('the first words of a message', () => {
  for (const [message, badge] of MESSAGES) {
    test(`"${message.slice(0, 60)}" becomes "${badge.slice(0, 40)}"`, () => {
      assert.equal(headline(message), badge);
    });
  }

  test('are found in a time that no message can extend', () => {
    for (const part of ['/', '(', ' (', '/a', 'a: ', 'a:\\']) {
      const shown = headline(part.repeat(1_000_000));
      assert.ok(shown.length <= LONGEST_BADGE, `${part}: ${shown.length}`);
    }
  });
});

test('a stage that sleeps says that its new code does not start', () => {
  const scaling = { min: 0, max: 4, wanted: 0, asleep: true, change: null };
  const rest = {
    busy: 0,
    concurrency: 1,
    ready: 0,
    queue: 0,
    workers: [],
    circuit: 'closed',
    pinWarnings: [],
  } as const;
  const words = (successorError: string | null): string =>
    stageWords(
      { ...rest, doesNotStart: false, scaling, successorError },
      { refuses: null, engine: { state: 'ready', error: null } },
    ).whole;
  assert.equal(words(null), 'asleep');
  assert.equal(words('no weights'), 'new code fails: no weights');
});

describe('badges', () => {
  const red = useNodeRed();

  async function assertBadge(id: string, flow: readonly FlowNode[], badge: string, logged: RegExp): Promise<void> {
    await red.deploy([TAB, runtime(), ...flow]);
    await until(`${id} shows ${badge}, not ${red.badges.get(id)?.text}`, () => red.badges.get(id)?.text === badge);
    assert.equal(red.badges.get(id)?.fill, 'red');
    assert.ok(badge.length <= LONGEST_BADGE, badge);
    await until('the log has the whole message', () => red.logs.some((line) => logged.test(line)));
  }

  test('a stage names its missing file, and the log has the path', async () => {
    const broken = stage('a', '', 'collector /use', { source: 'file', path: 'models/a/long/way/down/weights.cjs' });
    const log = /config_invalid: File: no file \/.*\/models\/a\/long\/way\/down\/weights\.cjs/;
    await assertBadge('a', [...endpoint('/use', 'a'), broken], 'File: no file weights.cjs', log);
  });

  test('a stage names its missing module, and the log says how to install it', async () => {
    const broken = stage('a', '', 'collector /use', { source: 'module', module: 'gone' });
    const log = /the module gone is not installed: run "npm install gone" in \//;
    await assertBadge(
      'a',
      [...endpoint('/use', 'a'), broken],
      'does not start: the module gone is not inst\u2026',
      log,
    );
  });

  test('a batcher names the setting that is wrong', async () => {
    const flow = [...endpoint('/use', 'q'), batcher('q', 'a', { maxBatchSize: '10001' }), stage('a', 'return 1;', 'x')];
    await assertBadge(
      'q',
      [...flow, sink('x')],
      'Batch size: must be <= 10000; got 10001',
      /Batch size: must be <= 10000; got/,
    );
  });

  test('a paced split names the setting that is wrong, and the log has the whole message', async () => {
    const broken = node('f', 'modelet-feed', ['x'], { window: '0' });
    await assertBadge(
      'f',
      [broken, sink('x')],
      'Window: must be >= 1; got 0',
      /20 .*config_invalid: Window: must be >= 1; got 0/,
    );
  });

  test('nodes that are corrected no longer show what was wrong', async () => {
    const ids = ['feed', 'collector', 'stream', 'view'];
    const flow = (isWrong: boolean): FlowNode[] => [
      node('feed', 'modelet-feed', ['x'], { window: isWrong ? '0' : '1' }),
      node('collector', 'modelet-collector', ['x'], { order: isWrong ? 'none' : 'arrival' }),
      node('stream', 'modelet-stream', [], { format: isWrong ? 'none' : 'sse' }),
      node('view', 'modelet-view', ['x'], { rate: isWrong ? '0' : '1' }),
      sink('x'),
    ];
    const areRed = (): boolean[] => ids.map((id) => red.badges.get(id)?.fill === 'red');
    await red.deploy([TAB, runtime(), ...flow(true)]);
    await until('all are red', () => areRed().every(Boolean));
    for (const type of ['full', 'nodes'] as const) {
      await red.deploy([TAB, runtime(), ...flow(false)], type);
      await until(`none is red after a deploy of ${type}`, () => !areRed().some(Boolean));
      await red.deploy([TAB, runtime(), ...flow(true)], type);
      await until('all are red', () => areRed().every(Boolean));
      // A paced split shows its badge at most once a second.
      const redAt = performance.now();
      await until('nothing of the nodes before can follow', () => performance.now() > redAt + 1500);
      assert.deepEqual(areRed(), [true, true, true, true]);
    }
  });
});
