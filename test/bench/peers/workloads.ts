/** The workloads of the benchmark against peers. Every server answers the same requests, with a model that costs nothing. */
import { join } from 'node:path';
import type { FlowNode } from '../../fixtures/node-red.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { batcher, httpPair, node, stage } from '../flows.ts';
import { type ModelFolders, picture, TASKS_OF_MODELS } from './models.ts';

const READING = JSON.stringify({
  sensor: 'press-7',
  line: 'north',
  values: [21.5, 0.25, 1013.2, 48.75, 3.125, 7.5],
  tags: ['vibration', 'temperature', 'pressure'],
  status: { ok: true, mode: 'auto', shift: 2 },
  unit: 'metric',
  note: 'about 200 bytes',
});

/** The schema that the peers do not check. */
const SCHEMA = JSON.stringify({
  type: 'object',
  required: ['sensor', 'values'],
  properties: {
    sensor: { type: 'string', maxLength: 64 },
    values: { type: 'array', minItems: 1, maxItems: 64, items: { type: 'number' } },
    tags: { type: 'array', items: { type: 'string' } },
    status: { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } },
  },
});

export interface Workload {
  readonly title: string;
  readonly body: string | Buffer;
  readonly contentType: string;
  readonly connections: number;
}

const json = (title: string, connections = 64): Workload => ({
  title,
  body: READING,
  contentType: 'application/json',
  connections,
});

const bytes = (title: string, count: number, connections: number): Workload => ({
  title: `${title}, one stage, ${connections} connections`,
  body: Buffer.alloc(count, 7),
  contentType: 'application/octet-stream',
  connections,
});

export const WORKLOADS = {
  batch: json('200 B JSON, batches of 32, 64 connections'),
  single: json('200 B JSON, single items, 64 connections'),
  two: json('200 B JSON, two stages (two workers, then batches of 32), 64 connections'),
  python: json('200 B JSON, batches of 32, a stage in Python, 64 connections'),
  schema: json('200 B JSON, batches of 32, a stage in Python with a schema of its inputs, 64 connections'),
  lone: json('200 B JSON, single items, one connection', 1),
  bytes: bytes('150 KB of bytes', 150_000, 32),
  echo: bytes('150 KB of bytes there and back', 150_000, 32),
  megabyte: bytes('1 MB of bytes', 1_000_000, 16),
  megabytes: bytes('8 MB of bytes', 8_000_000, 4),
  vectors: {
    ...json('vectors of texts of 26 words by a model of the size of MiniLM, batches of 32, 64 connections'),
    body: JSON.stringify({ text: 'the red bird is in the photo of anna '.repeat(3).slice(0, -9) }),
  },
  detector: {
    title: 'objects in pictures of 320x240, 200 KB, batches of 32, 64 connections',
    body: await picture(),
    contentType: 'application/octet-stream',
    connections: 64,
  },
} as const satisfies Record<string, Workload>;

export type WorkloadName = keyof typeof WORKLOADS;

const SUM = 'reduce((total, value) => total + value, 0)';
export const SUM_OF_INPUT: string = `input.values.${SUM}`;
export const SUM_OF_PAYLOAD: string = `msg.payload.values.${SUM}`;

/** Draws a workload's pipeline behind `POST /<path>`, on a runtime. */
export function pipeline(path: string, workload: WorkloadName, runtime: string, models: ModelFolders): FlowNode[] {
  const [first, last, out] = [`${path}-first`, `${path}-last`, `${path}-out`];
  const sum = `return { sum: ${SUM_OF_INPUT} };`;
  const own = { runtime };
  const batched = (by: FlowNode): FlowNode[] => [batcher(`${path}-batcher`, last), by];
  switch (workload) {
    case 'batch':
      return [...httpPair(path, `${path}-batcher`), ...batched(stage(last, out, sum, own))];
    case 'two':
      return [
        ...httpPair(path, first),
        stage(first, `${path}-batcher`, 'return { values: input.values.map((value) => value / 2) };', {
          ...own,
          workers: '2',
        }),
        ...batched(stage(last, out, sum, own)),
      ];
    case 'python':
    case 'schema': {
      const program = join(repositoryRoot, 'test/bench/peers/sum.py');
      const inputSchema = workload === 'schema' ? SCHEMA : '';
      const properties = { name: last, runtime, source: 'python', path: program, predict: 'batch', inputSchema };
      return [...httpPair(path, `${path}-batcher`), ...batched(node(last, 'modelet-stage', [out], properties))];
    }
    case 'vectors':
    case 'detector': {
      const known = { source: 'task', task: TASKS_OF_MODELS[workload], model: models.of(workload) };
      const properties = { name: last, runtime, ...known, init: JSON.stringify({ threads: 1 }) };
      return [...httpPair(path, `${path}-batcher`), ...batched(node(last, 'modelet-stage', [out], properties))];
    }
    case 'bytes':
    case 'echo':
    case 'megabyte':
    case 'megabytes': {
      const code = workload === 'echo' ? 'return input;' : 'return { bytes: input.length };';
      return [...httpPair(path, last), stage(last, out, code, { ...own, mediaTypes: 'application/octet-stream' })];
    }
    case 'single':
    case 'lone':
      return [...httpPair(path, last), stage(last, out, sum, own)];
  }
}
