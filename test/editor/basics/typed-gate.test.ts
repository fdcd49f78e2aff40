/** The dialog of a dispatch gate saves the typed values, of all its sources, and shows them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { NODE_SCHEMAS } from '../../fixtures/node-schemas.ts';
import { ours } from '../editor-page.ts';
import { Form, type Values } from '../form.ts';
import { sharedSession } from '../session.ts';
import { validityOf } from '../trials.ts';

const session = sharedSession();

const PROPERTIES = Object.keys(NODE_SCHEMAS['modelet-gate'].properties);
const CREDENTIALS = ['token', 'username', 'password'];

/** A value for each property, none of them the default, in turns: with each source its fields can be typed into. */
const TURNS: readonly Values[] = [
  { name: 'batch work', stage: 'work', baseline: '0.2', maxConcurrency: '8', rounding: 'ceil', atLeastOne: false },
  { whenClosed: 'refuse' },
  { unit: 'tokens', costProperty: 'payload.tokens', maxSys: '50', store: 'durable', capacity: '9', maxAttempts: '5' },
  { resultTtlMs: '60000' },
  { intervalMs: '250', lagMs: '0', staleMs: '900', leaseMs: '60000' },
  { source: 'constant', budget: '0.5' },
  { source: 'context', context: 'flow', key: 'free' },
  { source: 'aimd', minWindow: '2', maxWindow: '64', increase: '0.5', decreaseFactor: '0.9', holdMs: '0' },
  { source: 'scrape', metric: 'running', labels: '{"model": "a"}', perServer: '4', serversMetric: 'up' },
  { source: 'redis', url: 'redis://127.0.0.1:6379' },
  {
    source: 'prometheus',
    url: 'https://127.0.0.1:9090/prom',
    query: 'max(load)',
    maxSysQuery: 'sum(size)',
    value: 'budget',
    timeoutMs: '700',
  },
  { token: 'hush', username: 'me', password: 'secret' },
];

const FLOWS = [TAB, runtime(), stage('work', 'return input;', []), node('gate', 'modelet-gate', [[], []], { y: 200 })];

test('the dialog of a gate saves the typed values on OK and shows them again', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.open('gate');
    const form = new Form(editor);
    await form.unfold();
    for (const turn of TURNS) await form.set(turn);
    await editor.ok();
    assert.deepEqual(await validityOf(editor, 'gate'), { valid: true, errors: [] });
    const { token, username, password, ...typed } = Object.assign({}, ...TURNS) as Record<string, string | boolean>;
    const notTyped = ['runtime', 'tls', 'members'];
    assert.deepEqual(Object.keys(typed).sort(), PROPERTIES.filter((name) => !notTyped.includes(name)).sort());
    const { runtime: _, tls: _tls, members: _members, ...saved } = ours(await editor.saved('gate'));
    const { credentials, ...properties } = saved;
    assert.deepEqual(properties, typed);
    assert.deepEqual(credentials, { token, username, password });

    await editor.deploy();
    await editor.open('gate');
    await form.unfold();
    const shown = [
      'query',
      'url',
      'timeoutMs',
      'baseline',
      'unit',
      'maxSys',
      'store',
      'rounding',
      'atLeastOne',
      'stage',
    ];
    assert.deepEqual(await form.get(shown), Object.fromEntries(shown.map((name) => [name, typed[name]])));
    assert.deepEqual(await form.get(['costProperty', 'leaseMs']), { costProperty: 'payload.tokens', leaseMs: '60000' });
    // Secrets do not come back to the editor, and stay as they are.
    assert.deepEqual(await form.get(CREDENTIALS), { token: '__PWRD__', username, password: '__PWRD__' });
    await editor.ok();
    const { runtime: _same, tls: _none, members: _no, ...again } = ours(await editor.saved('gate'));
    assert.deepEqual(again, properties);
  });
});
