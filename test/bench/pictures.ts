/**
 * Part p: the words of pictures are found, read and gathered. As a list, whose items fill the batches of the model also
 * with words of other pictures, and with a call for each picture; and small pictures beside one with 10,000 words.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gather } from '../fixtures/drawn.ts';
import { batcher, runtime, sink, stage, TAB } from '../fixtures/flow.ts';
import { type FlowNode, type Message, NodeRed } from '../fixtures/node-red.ts';
import { type Drawing, writeModel } from '../fixtures/onnx.ts';
import { interleave, medianOf, percentile } from './measure.ts';
import { atLeast, atMost, figure, type Part, type PartResult, ratio, type Scale } from './report.ts';

/** Values of a word's picture, of a hidden layer, and signs. */
const SIZES = { pixels: 256, hidden: 2048, signs: 40 } as const;
const BATCH = 32;
const IN_FLIGHT = 32;
const WORDS = { least: 1, most: 5 } as const;
const MANY = 10_000;

type Way = 'list' | 'each';

/** Three dense layers: a run reads all weights, whether for one word or for many. */
function reader(): Drawing {
  const { pixels, hidden, signs } = SIZES;
  const weights = (name: string, ...dims: readonly [number, number]) => {
    const values = Array.from({ length: dims[0] * dims[1] }, (_, at) => Math.sin(at) / Math.sqrt(dims[0]));
    return { name, dims, values };
  };
  return {
    inputs: [{ name: 'word', shape: ['batch', pixels] }],
    outputs: [{ name: 'sign', type: 'int64', shape: ['batch', 1] }],
    nodes: [
      { operator: 'MatMul', inputs: ['word', 'w1'], output: 'h1' },
      { operator: 'Relu', inputs: ['h1'], output: 'r1' },
      { operator: 'MatMul', inputs: ['r1', 'w2'], output: 'h2' },
      { operator: 'Relu', inputs: ['h2'], output: 'r2' },
      { operator: 'MatMul', inputs: ['r2', 'w3'], output: 'scores' },
      { operator: 'ArgMax', inputs: ['scores'], output: 'sign', attributes: { axis: 1 } },
    ],
    constants: [weights('w1', pixels, hidden), weights('w2', hidden, hidden), weights('w3', hidden, signs)],
  };
}

function flows(model: string): FlowNode[] {
  const { pixels } = SIZES;
  const setup = `return Float32Array.from({ length: ${MANY * pixels} }, (_, at) => at % 7);`;
  const cut = `return Array.from({ length: input }, (_, at) => state.subarray(at * ${pixels}, (at + 1) * ${pixels}));`;
  const whole = `return { data: state.subarray(0, input * ${pixels}), dims: [input, ${pixels}], type: 'float32' };`;
  const waits = { overflow: 'wait', capacity: 4096 };
  const find = { setup, workers: 2, ...waits };
  const read = { source: 'onnx', path: model, predict: 'batch', init: JSON.stringify({ threads: 1 }), ...waits };
  return [
    TAB,
    runtime('runtime', { maxPayloadMb: 256 }),
    stage('list', cut, 'list batches', { emits: 'list', ...find }),
    batcher('list batches', 'list read', { maxBatchSize: BATCH }),
    stage('list read', '', 'list gather', read),
    gather('list gather', 'list end', [], { mode: 'list', maxItems: MANY }),
    sink('list end'),
    stage('each', whole, 'each read', find),
    stage('each read', '', 'each end', read),
    sink('each end'),
  ];
}

type Read = (words: number) => Promise<unknown>;

/** Sends pictures of so many words into a way, and resolves with their readings. */
function reading(red: NodeRed, way: Way): Read {
  const [first, end] = [way, `${way} end`].map((id) => red.red.nodes.getNode(id));
  const open = new Map<unknown, (result: unknown) => void>();
  end?.on('input', ({ payload, number }: Message) => {
    open.get(number)?.(payload);
    open.delete(number);
  });
  let number = 0;
  return (words) =>
    new Promise((resolve) => {
      number += 1;
      open.set(number, resolve);
      first?.receive({ payload: words, number });
    });
}

interface Load {
  readonly perSecond: number;
  /** How long each small picture took. */
  readonly ms: readonly number[];
}

/** Sends small pictures. @param beside number of words of pictures that go through meanwhile, one after the other; 0: none */
async function load(read: Read, seconds: number, beside = 0): Promise<Load> {
  const until = performance.now() + seconds * 1000;
  const ms: number[] = [];
  const small = async (words: number): Promise<void> => {
    for (let sentAt = performance.now(); sentAt < until; sentAt = performance.now()) {
      await read(words);
      ms.push(performance.now() - sentAt);
    }
  };
  const large = async (): Promise<void> => {
    while (beside > 0 && performance.now() < until) await read(beside);
  };
  const sizes = WORDS.most - WORDS.least + 1;
  const all = Array.from({ length: IN_FLIGHT }, (_, at) => small(WORDS.least + (at % sizes)));
  await Promise.all([large(), ...all]);
  return { perSecond: ms.length / seconds, ms };
}

export const pictures: Part = {
  letter: 'p',
  title: 'the words of pictures as items of lists, and a call for each picture',
  async run({ rounds, seconds }: Scale): Promise<PartResult> {
    const folder = mkdtempSync(join(tmpdir(), 'modelet-pictures-'));
    const red = await NodeRed.start();
    try {
      await red.deploy(flows(writeModel(folder, 'reader', reader())));
      await red.whenReady();
      const [list, each] = [reading(red, 'list'), reading(red, 'each')];
      for (const way of [list, each]) await load(way, seconds);
      const results = await interleave(rounds, {
        each: () => load(each, 2 * seconds),
        list: () => load(list, 2 * seconds),
        beside: () => load(list, 2 * seconds, MANY),
      });
      return tell(results);
    } finally {
      await red.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

function tell({ each, list, beside }: Readonly<Record<'each' | 'list' | 'beside', readonly Load[]>>): PartResult {
  const rate = (of: readonly Load[]): number => medianOf(of, ({ perSecond }) => perSecond);
  const times = (of: readonly Load[], percent: number): number =>
    percentile(
      of.flatMap(({ ms }) => ms),
      percent,
    );
  const row = (name: string, of: readonly Load[]): string[] => {
    const rates = [figure(rate(of)), ratio(rate(of) / rate(each))];
    return [name, ...rates, figure(times(of, 50)), figure(times(of, 99))];
  };
  return {
    tables: [
      {
        title: `p. Pictures of ${WORDS.least} to ${WORDS.most} words: found, read and gathered`,
        columns: ['way', 'pictures/s', 'of the first', 'p50 ms', 'p99 ms'],
        rows: [
          row('a call for each picture', each),
          row(`each word an item, batches of ${BATCH}`, list),
          row(`the same, beside pictures of ${MANY} words`, beside),
        ],
        notes: [
          `With ${IN_FLIGHT} pictures in flight, through drawn flows in Node-RED. The model has three dense layers in ONNX and one worker with one thread. In the last row pictures of ${MANY} words go through one after the other; rate and times are those of the small ones.`,
        ],
      },
    ],
    budgets: [
      atLeast({
        ...{ what: 'pictures whose words fill batches together, of a call for each picture', unit: 'x', gates: true },
        ...{ value: rate(list) / rate(each), limit: 1.5 },
      }),
      atMost({
        ...{ what: `small pictures beside one of ${MANY} words, p99, of alone`, unit: 'x', gates: false },
        ...{ value: times(beside, 99) / times(list, 99), limit: 2 },
      }),
    ],
  };
}
