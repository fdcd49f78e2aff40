/** However stages, batchers, functions, switches and links are drawn: fused and unfused give what the drawing says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { junction, linkIn, linkOut, sendAll, sorted, whenIdle } from '../../fixtures/drawn.ts';
import { batcher, catchNode, func, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { drawn, entryOf, outcomeOf, routeOf, WAYS, type Way } from '../../fixtures/random-routes.ts';

/** A unit turns a value into another value on one of its outputs, or into an error. */
type Effect = { readonly value: number; readonly output?: number } | { readonly code: string };

interface Unit {
  readonly outputs: number;
  readonly effect: (value: number) => Effect;
  /** The nodes it is drawn as; the first bears the unit's id, the last is wired to `wires`. */
  readonly draw: (id: string, wires: readonly (readonly string[])[], fused: boolean) => FlowNode[];
}

function stageUnit(code: string, effect: Unit['effect'], properties: object = {}): Unit {
  return {
    outputs: 1,
    effect,
    draw: (id, [to = []], fused) =>
      fused
        ? [stage(id, code, to, { ...properties })]
        : [stage(id, code, `behind ${id}`, { ...properties }), func(`behind ${id}`, 'return msg;', to)],
  };
}

/** Stages with an `Error` at an index of the batch. */
function batchUnit(limit: number, effect: Unit['effect']): Unit {
  const code = `return input.map((x) => x % ${limit} === 0 ? Object.assign(new Error('no'), { code: 'invalid_input' }) : x + 5);`;
  return stageUnit(code, effect, { predict: 'batch' });
}

const plain = (id: string, wires: readonly (readonly string[])[]): FlowNode[] => [junction(id, wires[0] ?? [])];
const link = (id: string, wires: readonly (readonly string[])[]): FlowNode[] => [
  linkOut(id, `${id} in`),
  linkIn(`${id} in`, id, wires[0] ?? []),
];
const parity = (id: string, wires: readonly (readonly string[])[]): FlowNode[] => [
  func(id, 'return msg.payload % 2 === 0 ? [msg, null] : [null, msg];', ...wires),
];
const small = (id: string, wires: readonly (readonly string[])[]): FlowNode[] => [
  node(id, 'switch', wires, {
    property: 'payload',
    propertyType: 'msg',
    rules: [{ t: 'lt', v: '40', vt: 'num' }, { t: 'else' }],
    checkall: 'false',
    outputs: 2,
  }),
];
const same = (value: number): Effect => ({ value });

const UNITS: Readonly<Record<string, Unit>> = {
  add: stageUnit('return input + 3;', (x) => ({ value: x + 3 })),
  multiply: stageUnit('return (input * 7) % 101;', (x) => ({ value: (x * 7) % 101 })),
  refuse: stageUnit(
    `if (input % 5 === 0) throw Object.assign(new Error('no'), { code: 'invalid_input' }); return input + 1;`,
    (x) => (x % 5 === 0 ? { code: 'invalid_input' } : { value: x + 1 }),
  ),
  fail: stageUnit(`if (input % 6 === 0) throw new Error('bug'); return input * 2;`, (x) =>
    x % 6 === 0 ? { code: 'modelet_failed' } : { value: x * 2 },
  ),
  batch: batchUnit(4, (x) => (x % 4 === 0 ? { code: 'invalid_input' } : { value: x + 5 })),
  batch2: batchUnit(7, (x) => (x % 7 === 0 ? { code: 'invalid_input' } : { value: x + 5 })),
  double: {
    outputs: 1,
    effect: (x) => ({ value: x * 2 }),
    draw: (id, [to = []]) => [func(id, 'msg.payload *= 2; return msg;', to)],
  },
  parity: { outputs: 2, effect: (x) => ({ value: x, output: x % 2 }), draw: parity },
  small: { outputs: 2, effect: (x) => ({ value: x, output: x < 40 ? 0 : 1 }), draw: small },
  link: { outputs: 1, effect: same, draw: link },
  link2: { outputs: 1, effect: same, draw: link },
  junction: { outputs: 1, effect: same, draw: plain },
  junction2: { outputs: 1, effect: same, draw: plain },
};
const STAGES = ['add', 'multiply', 'refuse', 'fail', 'batch', 'batch2'];

interface Graph {
  /** Wires go to later units only. */
  readonly order: readonly string[];
  /** Per unit and output: how many units further its targets are. */
  readonly steps: readonly (readonly (readonly number[])[])[];
  /** Stages that have a batcher in front, with its size. */
  readonly batchers: Readonly<Record<string, number>>;
}

const graphs: fc.Arbitrary<Graph> = fc
  .record({
    some: fc.shuffledSubarray(STAGES, { minLength: 2 }),
    others: fc.shuffledSubarray(
      Object.keys(UNITS).filter((id) => !STAGES.includes(id)),
      { maxLength: 4 },
    ),
    batchers: fc.dictionary(fc.constantFrom(...STAGES), fc.integer({ min: 1, max: 8 })),
  })
  .chain(({ some, others, batchers }) => {
    const all = [...some, ...others];
    const targets = fc.uniqueArray(
      fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 4 }) }),
      { minLength: 1, maxLength: 2 },
    );
    return fc.record({
      order: fc.shuffledSubarray(all, { minLength: all.length }),
      steps: fc.array(fc.tuple(targets, targets), { minLength: all.length, maxLength: all.length }),
      batchers: fc.constant(batchers),
    });
  });

/** The targets of each output of the unit at a position: units, or `out`. */
function targetsAt({ order, steps }: Graph, position: number): string[][] {
  const { outputs } = UNITS[order[position] as string] as Unit;
  return (steps[position] ?? [])
    .slice(0, outputs)
    .map((offsets) => [...new Set(offsets.map((offset) => order[position + offset] ?? 'out'))]);
}

function draw(graph: Graph, fused: boolean): FlowNode[] {
  const entryOf = (id: string): string => (id in graph.batchers ? `batcher ${id}` : id);
  const units = graph.order.flatMap((id, position) => {
    const wires = targetsAt(graph, position).map((ids) => ids.map(entryOf));
    const size = graph.batchers[id];
    const inFront = size === undefined ? [] : [batcher(`batcher ${id}`, id, { maxBatchSize: String(size) })];
    return [...inFront, ...(UNITS[id] as Unit).draw(id, wires, fused)];
  });
  // The other stages are deployed as well, so that all keep their workers from one graph to the next.
  const unused = STAGES.filter((id) => !graph.order.includes(id)).flatMap((id) =>
    (UNITS[id] as Unit).draw(id, [[]], true),
  );
  return [TAB, runtime(), ...units, ...unused, catchNode('catch', 'failed'), sink('failed'), sink('out')];
}

/** The result according to the drawing, computed unit by unit. */
function expected(graph: Graph, inputs: readonly number[]): string[] {
  const ends: string[] = [];
  const enter = (id: string, request: number, value: number): void => {
    if (id === 'out') {
      ends.push(JSON.stringify([request, value]));
      return;
    }
    const effect = (UNITS[id] as Unit).effect(value);
    if ('code' in effect) {
      ends.push(JSON.stringify([request, effect.code, id]));
      return;
    }
    const targets = targetsAt(graph, graph.order.indexOf(id))[effect.output ?? 0] ?? [];
    for (const target of targets) enter(target, request, effect.value);
  };
  for (const input of inputs) enter(graph.order[0] as string, input, input);
  return ends.sort();
}

const red = useNodeRed();

let longestRoute = 0;

async function run(graph: Graph, fused: boolean, inputs: readonly number[]): Promise<string[]> {
  const { routes, invalid } = await red.deployReady(draw(graph, fused));
  assert.deepEqual(invalid, {});
  const lengths = routes.map(({ stages }) => stages.length);
  if (fused) longestRoute = Math.max(longestRoute, ...lengths);
  else assert.equal(Math.max(...lengths), 1);
  const [out, failed] = [red.inputs('out'), red.inputs('failed')];
  const entry = graph.order[0] as string;
  for (const input of inputs) sendAll(red, entry, [input], { request: input });
  await whenIdle(red);
  const results = out.map((msg) => [msg['request'], msg.payload]);
  const errors = failed.map((msg) => [
    msg['request'],
    msg['_error'] && (msg['_error'] as { code: string }).code,
    msg.error?.source.id,
  ]);
  return sorted([...results, ...errors]);
}

test('fused and unfused give the same results and errors', async () => {
  const inputs = fc.uniqueArray(fc.integer({ min: 0, max: 99 }), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(graphs, inputs, async (graph, values) => {
      const wanted = expected(graph, values);
      assert.deepEqual(await run(graph, true, values), wanted, 'fused');
      assert.deepEqual(await run(graph, false, values), wanted, 'unfused');
    }),
    // A time limit would leave the case that it interrupts running, so that it deploys into the tests that follow.
    { numRuns: 25 },
  );
  // Else the property would have said nothing about fusing.
  assert.ok(longestRoute >= 3, `longest route: ${longestRoute}`);
});

/** Sends the inputs through a way. Resolves with the result of each, or null for an error. */
async function sentThrough(way: Way, inputs: readonly number[], fused: boolean): Promise<Map<unknown, unknown>> {
  const { invalid, routes } = await red.deployReady(drawn(way, fused));
  assert.deepEqual(invalid, {});
  const route = routes.find(({ entry }) => entry === entryOf(way)) as { leg?: unknown } | undefined;
  if (fused) assert.deepEqual(route?.leg, JSON.parse(JSON.stringify(routeOf(way).leg)), 'compiled as a flow file');
  const ends = ['out', 'failed'].map((id) => red.inputs(id));
  for (const input of inputs) sendAll(red, entryOf(way), [input], { request: input });
  await whenIdle(red);
  const [results, errors] = ends.map((messages) => messages.map((msg) => msg['request']));
  assert.deepEqual(sorted([...(results ?? []), ...(errors ?? [])]), sorted(inputs), 'each request has one end');
  // Objects of function nodes have other prototypes.
  const readable = ({ payload }: Message): unknown => JSON.parse(JSON.stringify(payload));
  return new Map(
    ends.flatMap((messages, end) => messages.map((msg) => [msg['request'], end === 0 ? readable(msg) : null])),
  );
}

test('lists, forks and choices in one another give the same in the engine, in the flow and as a flow file says', async () => {
  const inputs = fc.uniqueArray(fc.integer({ min: 0, max: 999 }), { minLength: 4, maxLength: 8 });
  const cases = fc.asyncProperty(WAYS, inputs, async (way, sent) => {
    const wanted = new Map(sent.map((input) => [input, outcomeOf(way, input)]));
    assert.deepEqual(await sentThrough(way, sent, true), wanted, 'engine');
    assert.deepEqual(await sentThrough(way, sent, false), wanted, 'flow');
  });
  await fc.assert(cases, { numRuns: 10 });
});
