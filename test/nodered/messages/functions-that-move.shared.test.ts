/** The function nodes that move as they are: the same messages in the same order from the stage that each becomes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { stageOfFunction } from '../../../src/node-red/functions/conversion.ts';
import { catchNode, httpIn, httpOut, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { FUNCTION_CORPUS } from '../../fixtures/function-corpus.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const MOVING = FUNCTION_CORPUS.filter(({ obstacles }) => obstacles.length === 0);
/** Both ways of each function node, in separate flows, because nodes share the context of their flow. */
const WAYS = ['function', 'stage'] as const;
/** The outputs of the nodes, and the Catch node. */
const ENDS = [0, 1, 'caught'] as const;

function flows(): FlowNode[] {
  const env = [
    { name: 'PLACE', value: 'here', type: 'str' },
    { name: 'LIMIT', value: '5', type: 'num' },
  ];
  const tabs = WAYS.map((way) => ({ ...TAB, id: way, env }));
  const pairs = MOVING.flatMap(({ func, initialize = '', libs = [], outputs = 1 }, at) => {
    // The context that all flows share is each way's own.
    const own = (way: string): object => ({
      ...{ func: func.replaceAll("'sums'", `'sums${way}${at}'`), initialize, finalize: '', outputs, timeout: 0, libs },
    });
    const properties = stageOfFunction(own('stage') as Parameters<typeof stageOfFunction>[0]).properties;
    const wiresOf = (way: string): string[] => [0, 1].slice(0, outputs).map((output) => `${way}-${at}-${output}`);
    return WAYS.flatMap((way) =>
      [
        way === 'function'
          ? node(`function-${at}`, 'function', wiresOf(way), { ...own(way) })
          : node(`stage-${at}`, 'modelet-stage', wiresOf(way), { ...properties, name: `s${at}`, runtime: 'runtime' }),
        catchNode(`${way}-${at}-catch`, `${way}-${at}-caught`, { scope: [`${way}-${at}`] }),
        ...ENDS.map((end) => sink(`${way}-${at}-${end}`)),
      ].map((one) => ({ ...one, z: way })),
    );
  });
  return [...tabs, TAB, runtime(), ...pairs, ...OTHERS];
}

interface ContextOwner {
  context(): Record<'flow' | 'global', { get(key: string): unknown; set(key: string, value: unknown): void }>;
}

const COUNTED = 10_000;
const LISTED = 300;
const OTHERS: FlowNode[] = [
  stage('counts', 'flow.increment("count");', [], { workers: '4' }),
  stage('lists', 'flow.update("list", (list = []) => [...list, msg.payload]);', [], { workers: '4' }),
  stage('tool', 'return { payload: [global.get("plain"), global.get(msg.topic)] };', ['tooled']),
  sink('tooled'),
  catchNode('tool-catch', 'untooled', { scope: ['tool'] }),
  sink('untooled'),
  httpIn('in', '/parity', 'parity'),
  stage('parity', 'if (!msg.payload.odd) return null; msg.statusCode = 201;\nreturn msg;', ['out']),
  httpOut('out'),
  httpIn('wait', '/waits', 'waits'),
  stage('waits', 'flow.set("waits", flow.get("waits")); await new Promise(() => {});', ['out'], { capacity: '2' }),
];

/** Returns the message without its id and what names its node, as objects of this realm: a function node has its own. */
function contentOf({ _msgid, modelet, _event, error, ...content }: Message): object {
  return structuredClone({ ...content, error: (error as { message?: string } | undefined)?.message });
}

describe('function nodes that became stages', () => {
  const red = useNodeRed({ flows });

  for (const [at, { name, messages }] of MOVING.entries()) {
    test(name, async () => {
      const [before, after] = WAYS.map((way) => ENDS.map((end) => red.inputs(`${way}-${at}-${end}`)));
      const count = (all: Message[][] = []): number => all.flat().length;
      for (const message of messages) red.send(`function-${at}`, { ...message });
      for (const message of messages) red.send(`stage-${at}`, { ...message });
      await until('all are through', () => count(before) >= messages.length / 2 && count(after) >= count(before));
      assert.deepEqual(
        after?.map((all) => all.map(contentOf)),
        before?.map((all) => all.map(contentOf)),
      );
    });
  }

  test('four workers count each message exactly once', async () => {
    const { flow } = (red.node('counts') as unknown as ContextOwner).context();
    for (let payload = 0; payload < COUNTED; payload += 1) red.send('counts', { payload });
    await until('all are counted', () => Number(flow.get('count')) >= COUNTED);
    assert.equal(flow.get('count'), COUNTED);
  });

  test('four workers that update a list leave out nothing, in the order of the messages', async () => {
    const { flow } = (red.node('lists') as unknown as ContextOwner).context();
    const all = Array.from({ length: LISTED }, (_, at) => at);
    for (const payload of all) red.send('lists', { payload });
    await until('all are listed', () => (flow.get('list') as unknown[] | undefined)?.length === LISTED);
    assert.deepEqual(flow.get('list'), all);
  });

  test('code that makes a key gets the whole store, and an error only if it reads what stays in Node-RED', async () => {
    const { global } = (red.node('tool') as unknown as ContextOwner).context();
    global.set('plain', { n: 1 });
    global.set('made', () => 1);
    const [results, errors] = [red.inputs('tooled'), red.inputs('untooled')];
    red.send('tool', { topic: 'plain.n', payload: 0 });
    red.send('tool', { topic: 'made', payload: 0 });
    await until('both are through', () => results.length === 1 && errors.length === 1);
    assert.deepEqual(results[0]?.payload, [{ n: 1 }, 1]);
    assert.match(JSON.stringify(errors[0]?.['error']), /global\.made has a value that stays in Node-RED/);
  });

  test('the view of the sidebar has the costs of whole messages, and none of a stage without', async () => {
    type Costs = Record<string, { messages: number; bytesOut: number; bytesBack: number; ms: number }>;
    const { wholeMessages } = await red.getJson<{ wholeMessages: Costs }>('/admin/modelets/view');
    const { messages = 0, bytesOut = 0, bytesBack = 0, ms = 0 } = wholeMessages['counts'] ?? {};
    assert.equal(messages, COUNTED);
    assert.ok(bytesOut >= COUNTED && bytesBack >= COUNTED && ms > 0, `${bytesOut} and ${bytesBack} bytes, ${ms} ms`);
    const of = (name: string): number | undefined =>
      wholeMessages[`stage-${MOVING.findIndex((one) => one.name === name)}`]?.messages;
    assert.deepEqual([of('keys that the code makes'), of('a loop')], [5, undefined]);
  });

  test('an HTTP client gets what the code sets, and an error if the code drops its message', async () => {
    const answered = await red.post('/parity', { odd: true });
    assert.deepEqual([answered.status, await answered.json()], [201, { odd: true }]);
    const dropped = await red.post('/parity', {});
    assert.deepEqual(
      [dropped.status, ((await dropped.json()) as { error: { code: string } }).error.code],
      [503, 'dropped'],
    );
  });

  test('a message that waits for its turn ends at its deadline, or when its client goes away', async () => {
    const arrived = red.inputs('waits');
    const cancelled = async (): Promise<number> => (await red.snapshot()).runtimes[0]?.requests['cancelled'] ?? 0;
    const before = await cancelled();
    const clients = [new AbortController(), new AbortController()];
    const answers: Promise<unknown>[] = [];
    for (const [at, { signal }] of clients.entries()) {
      answers.push(red.post('/waits', {}, { signal }).catch(() => 'gone'));
      await until('it has arrived', () => arrived.length === at + 1);
    }
    // Each leaves its place to the next: two may wait, and one does.
    for (const _ of [1, 2]) {
      const late = await red.post('/waits', {}, { headers: { timeout: '20' }, signal: AbortSignal.timeout(20_000) });
      assert.equal(((await late.json()) as { error: { code: string } }).error.code, 'deadline_exceeded');
    }
    for (const [at, client] of clients.reverse().entries()) {
      client.abort();
      await until('it is counted', async () => (await cancelled()) === before + at + 1);
    }
    assert.deepEqual(await Promise.all(answers), ['gone', 'gone']);
  });
});
