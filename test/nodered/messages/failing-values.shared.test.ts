/** The value that handlers of an error see: what the failing stage was given, however the chain is drawn. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { catchNode, collector, func, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';

interface Case {
  readonly name: string;
  /** Code of the first stage, which makes the value. */
  readonly make: string;
  /** The same value, as the handler must see it. */
  readonly made: unknown;
  /** Code of the second stage, which fails. */
  readonly fail?: string;
  readonly code: string;
  readonly first?: object;
  readonly second?: object;
  /** How many messages are sent at the same time. */
  readonly messages?: number;
  /** The property that carries the value. */
  readonly property?: string;
  readonly skip?: string | false;
}

const THROW = `throw new Error('told to fail');`;
const VALUE = { from: 'first', list: [1, 2, 3] };
const MAKE = `return { from: 'first', list: [1, 2, 3] };`;

/** A Buffer as a few words: a difference between two large ones takes minutes to print. */
function brief(value: unknown): unknown {
  return Buffer.isBuffer(value) ? `${value.length} bytes: ${hash('sha256', value)}` : value;
}

const CASES: readonly Case[] = [
  { name: 'throws', make: MAKE, made: VALUE, code: 'modelet_failed' },
  { name: 'throws in a thread', make: MAKE, made: VALUE, code: 'modelet_failed', second: { isolation: 'thread' } },
  {
    name: 'is Python and raises',
    make: MAKE,
    made: VALUE,
    code: 'modelet_failed',
    second: { source: 'python', path: 'fails.py' },
    skip: WITHOUT_PYTHON,
  },
  {
    name: 'refuses the value by its schema',
    make: MAKE,
    made: VALUE,
    code: 'invalid_input',
    second: { inputSchema: '{"type":"string"}' },
  },
  { name: 'loses its worker', make: MAKE, made: VALUE, fail: 'process.exit(3);', code: 'worker_lost' },
  {
    name: 'loses its worker twice',
    make: MAKE,
    made: VALUE,
    fail: 'process.exit(3);',
    code: 'worker_lost',
    second: { retryLost: true },
  },
  {
    name: 'runs too long',
    make: MAKE,
    made: VALUE,
    fail: 'for (;;);',
    code: 'deadline_exceeded',
    second: { runTimeoutMs: 200 },
  },
  {
    name: 'fails one run for several requests',
    make: MAKE,
    made: VALUE,
    code: 'modelet_failed',
    second: { cache: '10' },
    messages: 3,
  },
  {
    name: 'is given a large Buffer',
    make: 'return Buffer.alloc(3_000_000, 7);',
    made: brief(Buffer.alloc(3_000_000, 7)),
    code: 'modelet_failed',
  },
  {
    name: 'is given a typed array',
    make: 'return Float32Array.of(1, 2.5, NaN);',
    made: Float32Array.of(1, 2.5, Number.NaN),
    code: 'modelet_failed',
  },
  {
    name: 'is given what JSON cannot hold',
    make: 'return { at: new Date(7), big: 5n };',
    made: { at: new Date(7), big: 5n },
    code: 'modelet_failed',
  },
  {
    name: 'reads another property',
    make: MAKE,
    made: VALUE,
    code: 'modelet_failed',
    property: 'found.value',
  },
];

/** The flow of a case: two stages with nothing or a core node between them. */
function chain({ name, make, fail = THROW, first = {}, second = {}, property }: Case, between: boolean): FlowNode[] {
  const [one, two, core] = [`${name}: first`, `${name}: second`, `${name}: core`];
  return [
    stage(one, make, between ? core : two, { ...first, ...(property ? { output: property } : {}) }),
    ...(between ? [func(core, 'return msg;', two)] : []),
    stage(two, fail, [], { ...second, ...(property ? { input: property } : {}) }),
  ];
}

/** All that a handler can tell apart, but for times and numbers of the request. */
function seen({ payload, error, statusCode, modelet, found }: Message): object {
  const { code, message, stage: at, source } = error ?? assert.fail('the message has no error');
  const { input, stages } = modelet as unknown as { input: unknown; stages: { name: string }[] };
  const names = stages.map(({ name }) => name);
  return {
    payload: brief(payload),
    found,
    statusCode,
    error: { code, message, at, source },
    input: brief(input),
    names,
  };
}

const ENTERED = { entered: 'the route' };

const red = useNodeRed({
  prepare: (red) =>
    writeFile(join(red.userDir, 'fails.py'), 'def predict(value):\n    raise RuntimeError("told to fail")\n'),
});

async function failures(
  cases: readonly Case[],
  nodes: readonly FlowNode[],
  ends: string,
): Promise<Map<string, object[]>> {
  await red.deployReady([TAB, runtime(), ...nodes, sink(ends)]);
  const got = red.inputs(ends);
  const found = new Map<string, object[]>();
  for (const { name, messages = 1 } of cases) {
    const before = got.length;
    for (let index = 0; index < messages; index += 1) red.send(`${name}: first`, { payload: ENTERED });
    await until(`${name}: its errors are here`, () => got.length === before + messages);
    found.set(name, got.slice(before).map(seen));
  }
  return found;
}

describe('a Catch node gets the value that the failing stage was given, where the second of two stages', () => {
  const cases = CASES.filter(({ skip = false }) => skip === false);
  let fused: Map<string, object[]>;
  let unfused: Map<string, object[]>;
  before(async () => {
    const drawn = (between: boolean): FlowNode[] => [
      ...cases.flatMap((one) => chain(one, between)),
      catchNode('catch', 'caught'),
    ];
    fused = await failures(cases, drawn(false), 'caught');
    unfused = await failures(cases, drawn(true), 'caught');
  });

  for (const { name, made, code, property, skip = false } of CASES) {
    test(name, { skip }, () => {
      const all = fused.get(name) as { input: unknown; payload: unknown; found: unknown; error: { code: string } }[];
      for (const { input, payload, found, error } of all) {
        assert.equal(error.code, code);
        assert.deepEqual(input, made);
        assert.deepEqual(payload, property ? ENTERED : made);
        assert.deepEqual(found, property ? { value: made } : undefined);
      }
      assert.deepEqual(all, unfused.get(name));
    });
  }
});

describe('a catch output gets the value that the failing stage was given', () => {
  for (const errorPayload of ['keep', 'body']) {
    test(`in a chain of three with errorPayload ${errorPayload}`, async () => {
      const one: Case = { name: 'three', make: MAKE, made: VALUE, code: 'modelet_failed' };
      const last = [stage('last', 'return input;', 'collect'), collector('collect', [], 'errors', { errorPayload })];
      const wired = (between: boolean): FlowNode[] => [
        ...chain(one, between).map((node) => (node.id === 'three: second' ? { ...node, wires: [['last']] } : node)),
        ...last,
      ];
      const [fused] = (await failures([one], wired(false), 'errors')).get('three') as {
        payload: unknown;
        input: unknown;
      }[];
      const [unfused] = (await failures([one], wired(true), 'errors')).get('three') as { payload: unknown }[];
      assert.deepEqual(fused?.input, VALUE);
      if (errorPayload === 'keep') assert.deepEqual(fused?.payload, VALUE);
      else assert.match(JSON.stringify(fused?.payload), /^\{"error":\{"code":"modelet_failed"/);
      const withoutId = (failure: object | undefined): unknown =>
        JSON.parse(JSON.stringify(failure), (key, value) => (key === 'requestId' ? undefined : value));
      assert.deepEqual(withoutId(fused), withoutId(unfused));
    });
  }
});
