/** Part j: the same modelets in JavaScript and in Python. */
import { join } from 'node:path';
import { pythonWith } from '../fixtures/python.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { Bed, type BedStage, batchesOf } from './bed.ts';
import { closedLoop, type LoopResult } from './load.ts';
import { interleave, medianOf } from './measure.ts';
import { figure, type Part, type PartResult, ratio } from './report.ts';

const [NUMPY, WITHOUT_NUMPY] = pythonWith('numpy');

const IN_FLIGHT = 256;

const READING = { sensor: 'press-7', values: [21.5, 0.25, 1013.2, 48.75], tags: ['vibration'], status: { ok: true } };
const pixels = Float32Array.from({ length: 784 }, (_, index) => index / 784);
const image = { image: Array.from({ length: 64 }, (_, index) => index % 17) };

const python = (path: string): BedStage => ({
  modelet: join(repositoryRoot, path),
  python: NUMPY,
  batching: batchesOf(32),
});

const STAGES = {
  echo: { modelet: 'echo', batching: batchesOf(32) },
  digits: { modelet: 'digits', batching: batchesOf(32) },
  echoPython: python('test/fixtures/modelets/echo.py'),
  echoNumpy: python('test/bench/modelets/echo_numpy.py'),
  digitsPython: python('assets/modelets/digits.py'),
} as const satisfies Record<string, BedStage>;
type Entry = keyof typeof STAGES;

/** One comparison: a value, and the two stages that take it. */
const ROWS: readonly (readonly [string, unknown, Entry, Entry])[] = [
  ['echo, 120 B JSON', READING, 'echo', 'echoPython'],
  ['echo, Float32Array 3 KiB, numpy', pixels, 'echo', 'echoNumpy'],
  [`digits${WITHOUT_NUMPY ? ', no numpy' : ', numpy'}`, image, 'digits', 'digitsPython'],
];

export const languages: Part = {
  letter: 'j',
  title: 'the same modelets in JavaScript and in Python',
  async run({ rounds, seconds }): Promise<PartResult> {
    const entries = Object.entries(STAGES).map(([entry, stage]) => [entry, [stage]] as const);
    const bed = await Bed.start(Object.fromEntries(entries));
    try {
      const loop = (entry: Entry, value: unknown) => () =>
        closedLoop(
          (input, settled) => bed.send(entry, input, settled),
          () => value,
          {
            inFlight: IN_FLIGHT,
            seconds,
            processes: { engine: bed.enginePid, workers: bed.workerPids(entry) },
          },
        );
      const subjects = ROWS.flatMap(([what, value, node, other]) => [
        [`${what}: node`, loop(node, value)] as const,
        [`${what}: python`, loop(other, value)] as const,
      ]);
      const results = await interleave(rounds, Object.fromEntries(subjects));
      return { tables: [tell(results)], budgets: [] };
    } finally {
      await bed.close();
    }
  },
};

function tell(results: Record<string, readonly LoopResult[]>): PartResult['tables'][number] {
  const rate = (name: string): number => medianOf(results[name] ?? [], ({ itemsPerSecond }) => itemsPerSecond);
  const worker = (name: string): number => medianOf(results[name] ?? [], ({ cpu }) => cpu.workers);
  const rows = ROWS.map(([what]) => {
    const [node, other] = [`${what}: node`, `${what}: python`];
    return [
      what,
      String(Math.round(rate(node))),
      String(Math.round(rate(other))),
      ratio(rate(other) / rate(node)),
      figure(worker(node)),
      figure(worker(other)),
      ratio(worker(other) / worker(node)),
    ];
  });
  return {
    title: `j. Workers in JavaScript and in Python, batch 32, ${IN_FLIGHT} in flight`,
    columns: ['modelet', 'items/s, Node', 'items/s, Python', 'of Node', 'µs CPU worker, Node', 'Python', 'of Node'],
    rows,
    notes: ['One worker each. "µs CPU worker" is the CPU time of the worker per item, decoding and encoding included.'],
  };
}
