// biome-ignore-all lint/suspicious/noTemplateCurlyInString: texts in which ${NAME} is meant
/** Variables in `init` and `env` are those that Node-RED finds for the node, and stay out of everything that is shown. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { instance, on, subflow } from '../../fixtures/drawn.ts';
import { catchNode, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const SECRET = 'a-secret-of-the-process';
process.env['MODELET_TEST_KEY'] = SECRET;

const TELLS = 'return { init, env: [process.env.FIRST, process.env.SECOND] };';
const ASKS = {
  init: JSON.stringify({ key: '${MODELET_TEST_KEY}', place: '${PLACE}', limit: '${LIMIT}', text: '$${PLACE}' }),
  env: JSON.stringify({ FIRST: '${PLACE}', SECOND: '${MODELET_TEST_KEY}' }),
};

function variables(place: string, limit: number): object {
  return {
    env: [
      { name: 'PLACE', value: place, type: 'str' },
      { name: 'LIMIT', value: String(limit), type: 'num' },
    ],
  };
}

const FLOWS: readonly FlowNode[] = [
  { ...TAB, ...variables('flow', 1) },
  runtime(),
  stage('in flow', TELLS, 'out', ASKS),
  node('group', 'group', [], { nodes: ['in group'], ...variables('group', 2) }),
  ...on({ g: 'group' }, stage('in group', TELLS, 'out', ASKS)),
  { ...subflow('inside', 'in subflow', 'in subflow'), ...variables('subflow', 3) },
  ...on({ z: 'inside' }, stage('in subflow', TELLS, [], ASKS)),
  instance('as it is', 'inside', 'out'),
  { ...instance('changed', 'inside', 'out'), ...variables('instance', 4) },
  sink('out'),
];

const red = useNodeRed({ flows: FLOWS });

const PLACES = [
  ['in flow', 'flow', 1],
  ['in group', 'group', 2],
  ['as it is', 'subflow', 3],
  ['changed', 'instance', 4],
] as const;
for (const [entry, place, limit] of PLACES) {
  test(`a stage gets the variables of its ${place}, and those of the process`, async () => {
    const out = red.inputs('out');
    const before = out.length;
    red.send(entry, { payload: 1 });
    const { payload } = await until('its answer is here', () => out[before]);
    assert.deepEqual(payload, {
      init: { key: SECRET, place, limit, text: '${PLACE}' },
      env: [place, SECRET],
    });
  });
}

test('the value of a variable is in no snapshot, no metric, no document, no flow and no line of the log', async () => {
  for (const path of ['modelets/snapshot', 'modelets/metrics', 'modelets/openapi.json', 'modelets/openapi', 'flows']) {
    const response = await fetch(`${red.url}/admin/${path}`);
    assert.equal(response.status, 200, path);
    assert.ok(!(await response.text()).includes(SECRET), path);
  }
  assert.deepEqual(
    red.logs.filter((line) => line.includes(SECRET)),
    [],
  );
});

test('a stage with an unset variable is unusable, and the error names the variable', async () => {
  const asks = stage('asks', TELLS, 'out', { init: '{"key":"${MODELET_TEST_NOT_SET}"}' });
  await red.deploy([TAB, runtime(), asks, sink('out'), catchNode('catch', 'caught'), sink('caught')]);
  const caught = red.inputs('caught');
  red.send('asks', { payload: 1 });
  const { error } = await until('it is refused', () => caught[0]);
  assert.match(error?.message ?? '', /Init: the environment variable MODELET_TEST_NOT_SET is not set/);
  await until('the badge says so', () => red.badges.get('asks')?.text?.startsWith('Init: ${MODELET_TEST_NOT_SET}'));
});
