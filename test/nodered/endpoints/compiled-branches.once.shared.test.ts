/**
 * The same messages through the same drawing, first in the engine and then through the flow, where a Complete node at the
 * gathering node or the switch node keeps the route from the engine. The same messages come out.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { ChoiceRule } from '../../../src/core/routes/route.ts';
import { readSwitch } from '../../../src/flow/read/switch-rules.ts';
import { holds } from '../../../src/runtime/engine/routes/choices.ts';
import { gather, sendAll, sorted, whenIdle } from '../../fixtures/drawn.ts';
import { catchNode, collector, completeNode, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();
const gate = useGate();

/** Fails, waits until a message has come out, or makes special values, if the input says so by the stage's name. */
const OBEY = `
  const order = input?.orders?.[ctx.stage];
  if (order === 'fail later') await new Promise((resolve) => setTimeout(resolve, 100));
  if (order === 'fail' || order === 'fail later') throw new Error('told to fail');
  if (order === 'refuse') throw Object.assign(new Error('not like this'), { code: 'invalid_input', details: [ctx.stage] });
  if (order === 'special') return { by: ctx.stage, at: new Date(0), floats: new Float32Array([1, 2]), n: NaN };
  if (order === 'bytes') return Buffer.from(ctx.stage);
  if (order === 'hold') await (async () => {${gate.code()}})();
  return { by: ctx.stage, from: input?.by ?? null, got: Object.keys(input ?? {}).sort(), orders: input?.orders, kind: input?.kind };`;

/** The nodes at which messages come out. `looked` is a debug node beside the way. */
const ENDS = ['results', 'errors', 'caught'] as const;

type Orders = Readonly<Record<string, string>>;
interface Sent {
  readonly orders?: Orders;
  readonly kind?: string;
}
type Seen = Readonly<Record<string, unknown>>;

/** Everything about a message that users see, without what differs from run to run. */
function told(message: Message): unknown {
  const { payload, topic, branches, error, statusCode, modelet } = message as Record<string, unknown>;
  const { stages = [] } = (modelet ?? {}) as { stages?: { name: string }[] };
  const { code, message: text, stage: at, source, details } = (error ?? {}) as Record<string, unknown>;
  const { id, type } = (source ?? {}) as { id?: string; type?: string };
  const names = stages.map(({ name }) => name).sort();
  const whole = { payload, topic, branches, statusCode, names, error: error && { code, text, at, id, type, details } };
  return structuredClone(JSON.parse(JSON.stringify(whole, (key, value) => (key === 'requestId' ? undefined : value))));
}

async function seenOf(payload: Sent): Promise<Seen> {
  const ends = ENDS.map((name) => [name, red.inputs(name), red.inputs(name).length] as const);
  const looked = red.inputs('looked');
  const before = looked.length;
  await gate.close();
  sendAll(red, 'front', [payload], { topic: 'mine' });
  await until('something comes out', () => ends.some(([, messages, count]) => messages.length > count));
  await gate.open();
  await whenIdle(red);
  const came = Object.fromEntries(ends.map(([name, messages, count]) => [name, messages.slice(count).map(told)]));
  // Branches that are cancelled in the engine run to their end in the flow, so debug nodes there see more.
  if (Object.values(payload.orders ?? {}).some((order) => /fail|refuse/.test(order))) return came;
  return { ...came, looked: sorted(looked.slice(before).map((message) => message.payload)) };
}

/** Runs every case in the engine, then through the flow. @param watched the node that keeps the route from the engine */
function sameBothWays(
  drawn: readonly FlowNode[],
  watched: string,
  kind: 'fork' | 'choice',
  cases: Readonly<Record<string, Sent>>,
): void {
  const runs: Record<string, Seen>[] = [];
  before(async () => {
    for (const more of [[], [completeNode('complete', [watched], [])]]) {
      await red.deployReady([TAB, runtime(), ...drawn, ...[...ENDS, 'looked'].map(sink), ...more]);
      const { routes } = (await red.snapshot()) as unknown as { routes: { entry: string; leg: { next: unknown } }[] };
      const next = JSON.stringify(routes.find(({ entry }) => entry === 'front')?.leg.next);
      assert.match(next, more.length === 0 ? new RegExp(`"kind":"${kind}"`) : /^null$/);
      const run: Record<string, Seen> = {};
      for (const [name, sent] of Object.entries(cases)) run[name] = await seenOf(sent);
      runs.push(run);
    }
  });
  for (const name of Object.keys(cases)) {
    test(name, () => {
      const [engine, flow] = runs.map((run) => run[name]);
      assert.deepEqual(engine, flow);
    });
  }
}

/**
 * `front -> {a, b -> b2, c} -> gather -> vote`, with a debug node and a Catch node.
 * @param first the branch that fails first, so that every report has it: the engine refuses its items, which have no key
 */
function ensemble(properties: object, wired: boolean, first: 'a' | null = null): FlowNode[] {
  return [
    stage('front', OBEY, ['a', 'b', 'c', 'looked']),
    stage('a', OBEY, ['gather', 'looked'], first === 'a' ? { keyBy: 'client' } : {}),
    stage('b', OBEY, 'b2'),
    stage('b2', OBEY, 'gather'),
    stage('c', OBEY, 'gather'),
    gather('gather', ['vote', 'looked'], wired ? 'errors' : [], properties),
    stage('vote', OBEY, 'results'),
    catchNode('catch', 'caught'),
  ];
}

describe('the engine gathers all branches as the flow does', () => {
  sameBothWays(ensemble({}, true), 'gather', 'fork', {
    'all succeed': {},
    'special values': { orders: { a: 'special', b2: 'bytes' } },
    'a branch fails': { orders: { b2: 'fail', a: 'hold', c: 'hold' } },
    'a branch refuses its input, with details': { orders: { c: 'refuse', a: 'hold', b: 'hold' } },
    'the stage in front fails': { orders: { front: 'fail' } },
    'the stage behind fails': { orders: { vote: 'refuse' } },
  });
});

describe('the engine gathers some of the branches as the flow does', () => {
  sameBothWays(ensemble({ partial: 'keep', timeoutMs: '3000' }, false), 'gather', 'fork', {
    'one fails': { orders: { a: 'fail' } },
    'all fail': { orders: { a: 'fail', b2: 'fail later', c: 'fail later' } },
    'the stage in front fails': { orders: { front: 'fail' } },
    'one is late': { orders: { b2: 'hold' } },
  });
});

describe('the engine takes a quorum as the flow does', () => {
  sameBothWays(ensemble({ mode: 'quorum', quorum: '2' }, false, 'a'), 'gather', 'fork', {
    'two of three': {},
    'one of three': { orders: { b2: 'fail', c: 'hold' } },
  });
});

describe('the engine takes the first result as the flow does', () => {
  sameBothWays(ensemble({ mode: 'first' }, false, 'a'), 'gather', 'fork', {
    'a slow branch does not count': { orders: { b: 'hold' } },
    'all fail': { orders: { b2: 'fail later', c: 'fail later' } },
  });
});

describe('errors of a gathering in the engine find the next collector', () => {
  const collected = [
    stage('front', OBEY, ['a', 'b']),
    stage('a', OBEY, 'gather'),
    stage('b', OBEY, 'gather'),
    gather('gather', 'collect'),
    collector('collect', 'results', 'errors', { errorPayload: 'keep' }),
  ];
  sameBothWays(collected, 'gather', 'fork', {
    'all succeed': {},
    'a branch fails, and the payload is what it got': { orders: { a: 'fail', b: 'hold' } },
    'the stage in front fails': { orders: { front: 'refuse' } },
  });
});

describe('a gathering in the engine may be a branch of another one', () => {
  const nested = [
    stage('front', OBEY, ['a', 'b']),
    stage('a', OBEY, 'a2'),
    stage('a2', OBEY, ['c', 'd', 'inner']),
    stage('c', OBEY, 'inner'),
    stage('d', OBEY, 'inner'),
    gather('inner', 'outer', [], { name: 'inner' }),
    stage('b', OBEY, 'outer'),
    gather('outer', 'results', 'errors', { name: 'outer' }),
  ];
  sameBothWays(nested, 'outer', 'fork', {
    'all succeed': {},
    'a branch of the inner one fails': { orders: { d: 'refuse', b: 'hold', c: 'hold' } },
    'the stage in front of the inner one fails': { orders: { a2: 'fail', b: 'hold' } },
  });
});

/** A core switch node. */
function core(id: string, rules: readonly object[], outputs: readonly string[], checkall: 'true' | 'false'): FlowNode {
  const settings = { property: 'payload.kind', propertyType: 'msg', rules, checkall, repair: false };
  return node(id, 'switch', outputs, { ...settings, outputs: outputs.length });
}

describe('a switch node in the engine decides as it does in the flow', () => {
  const rules = [{ t: 'eq', v: 'small', vt: 'str' }, { t: 'eq', v: '7', vt: 'num' }, { t: 'else' }];
  const routed = [
    stage('front', OBEY, ['choose', 'looked']),
    core('choose', rules, ['a', 'b', 'collect'], 'true'),
    stage('a', OBEY, 'collect'),
    stage('b', OBEY, 'b2'),
    stage('b2', OBEY, 'collect'),
    collector('collect', 'results', 'errors'),
  ];
  sameBothWays(routed, 'choose', 'choice', {
    'the first way': { kind: 'small' },
    'the second way, of two stages': { kind: '7' },
    'the way past all stages': { kind: 'large' },
    'a value that is missing': {},
    'an error on the way': { kind: '7', orders: { b2: 'refuse' } },
    'an error in front': { orders: { front: 'fail' } },
  });
});

/** Values that a rule may meet, and rules of every operator. */
const VALUES: readonly unknown[] = [
  ...[0, 1, -1.5, 7, Number.NaN, '', '0', '1', '1.0', 'small', 'a small one', '{"a":1}', true, false, null],
  ...[[], [1], ['small'], {}, { a: 1 }, { small: 2 }, Buffer.from('small'), Buffer.alloc(0), undefined],
];
const RULES: readonly object[] = [
  ...['eq', 'neq', 'lt', 'lte', 'gt', 'gte'].flatMap((t) => [
    { t, v: '1', vt: 'num' },
    { t, v: 'small', vt: 'str' },
    { t, v: '', vt: 'str' },
    { t, v: '1' },
  ]),
  { t: 'eq', v: 'true', vt: 'bool' },
  { t: 'btwn', v: '0', vt: 'num', v2: '2', v2t: 'num' },
  { t: 'btwn', v: '2', v2: '-2' },
  { t: 'cont', v: 'small', vt: 'str' },
  { t: 'hask', v: 'a', vt: 'str' },
  ...['true', 'false', 'null', 'nnull', 'empty', 'nempty'].map((t) => ({ t })),
  ...['string', 'number', 'boolean', 'array', 'buffer', 'object', 'undefined'].map((v) => ({ t: 'istype', v, vt: v })),
  { t: 'istype', v: 'json', vt: 'json' },
  { t: 'istype', v: 'null', vt: 'null' },
];

test('every rule holds for the same values in the engine and in Node-RED', async () => {
  const nodes = RULES.flatMap((rule, index) => [
    core(`node${index}`, [rule, { t: 'else' }], [`yes${index}`, `no${index}`], 'false'),
    sink(`yes${index}`),
    sink(`no${index}`),
  ]);
  await red.deploy([TAB, ...nodes]);
  for (const [index, rule] of RULES.entries()) {
    const drawn = {
      id: 'switch',
      type: 'switch',
      property: 'payload.kind',
      rules: [rule, { t: 'else' }],
      checkall: 'false',
    };
    const { rules, fault } = readSwitch(drawn, drawn);
    assert.equal(fault, null, JSON.stringify(rule));
    const [yes, no] = [red.inputs(`yes${index}`), red.inputs(`no${index}`)];
    for (const [at, value] of VALUES.entries()) {
      const before = yes.length;
      red.send(`node${index}`, { payload: { kind: value } });
      await until('Node-RED has decided', () => yes.length + no.length > at);
      const about = `${JSON.stringify(rule)} for ${JSON.stringify(value)}`;
      assert.equal(holds(rules[0] as ChoiceRule, value), yes.length > before, about);
    }
  }
});
