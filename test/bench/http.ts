/** Part c: HTTP in -> pipeline -> HTTP response, compiled and through the flow, against the same with a function node. */
import { NodeRedWithEditor } from '../fixtures/editor.ts';
import { batcher, functionNode, httpPair, stage, tabAndRuntime } from './flows.ts';
import { LOAD_GENERATOR, loadHttp } from './http-load.ts';
import { interleave, medianOf, threadCpu } from './measure.ts';
import { atLeast, atMost, figure, type Part, type PartResult, ratio } from './report.ts';

const CONNECTIONS = 64;

const BODY = JSON.stringify({
  sensor: 'press-7',
  line: 'north',
  values: [21.5, 0.25, 1013.2, 48.75, 3.125, 7.5],
  tags: ['vibration', 'temperature', 'pressure'],
  status: { ok: true, mode: 'auto', shift: 2 },
  unit: 'metric',
  note: 'about 200 bytes',
});

const SUM = 'reduce((total, value) => total + value, 0)';

interface Figures {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** CPU of Node-RED's main thread per request, in microseconds. */
  readonly cpu: number;
}

export const http: Part = {
  letter: 'c',
  title: 'HTTP in to HTTP response',
  async run({ rounds, seconds }) {
    // By its own command, as users start it: compiled endpoints then take their requests before Express.
    const red = await NodeRedWithEditor.start();
    try {
      await red.deploy([
        ...tabAndRuntime(),
        ...httpPair('noop', 'noop-out'),
        ...httpPair('function', 'function-node'),
        functionNode('function-node', 'function-out', `msg.payload = { sum: msg.payload.values.${SUM} };\nreturn msg;`),
        ...httpPair('pipeline', 'pipeline-batcher'),
        batcher('pipeline-batcher', 'pipeline-stage'),
        stage('pipeline-stage', 'pipeline-out', `return { sum: input.values.${SUM} };`),
        ...httpPair('flow', 'flow-batcher'),
        batcher('flow-batcher', 'flow-stage'),
        // Nothing drops anything here. A key keeps the endpoint from being compiled, and costs the flow nothing.
        stage('flow-stage', 'flow-out', `return { sum: input.values.${SUM} };`, { dropKey: 'topic' }),
      ]);
      const against = (path: string) => () => load(red, path, Math.max(2, Math.round(seconds * 2)));
      for (const path of ['noop', 'function', 'pipeline', 'flow']) await load(red, path, 1);
      const figures = await interleave(rounds, {
        noop: against('noop'),
        function: against('function'),
        pipeline: against('pipeline'),
        flow: against('flow'),
      });
      return tell(figures);
    } finally {
      await red.stop();
    }
  },
};

async function load(red: NodeRedWithEditor, path: string, seconds: number): Promise<Figures> {
  const before = threadCpu(red.pid);
  const result = await loadHttp({
    url: `${red.url}/${path}`,
    body: BODY,
    contentType: 'application/json',
    connections: CONNECTIONS,
    seconds,
  });
  if (result.failed > 0) throw new Error(`/${path}: ${result.failed} requests failed`);
  return { ...result, cpu: (threadCpu(red.pid) - before) / result.answered };
}

type Flow = 'noop' | 'function' | 'pipeline' | 'flow';

function tell(figures: Record<Flow, readonly Figures[]>): PartResult {
  const of = (flow: Flow, read: (figures: Figures) => number): number => medianOf(figures[flow], read);
  const rate = (flow: Flow): number => of(flow, ({ perSecond }) => perSecond);
  const row = (what: string, flow: Flow): string[] => [
    what,
    String(Math.round(rate(flow))),
    ratio(rate(flow) / rate('function')),
    figure(of(flow, ({ cpu }) => cpu)),
    figure(of(flow, ({ p50 }) => p50)),
    figure(of(flow, ({ p99 }) => p99)),
  ];
  return {
    tables: [
      {
        title: `c. Node-RED 5, POST of 200 B JSON, ${CONNECTIONS} connections of ${LOAD_GENERATOR}`,
        columns: ['flow', 'requests/s', 'of function', 'µs CPU of its thread', 'p50 ms', 'p99 ms'],
        rows: [
          row('HTTP in -> HTTP response', 'noop'),
          row('HTTP in -> function -> HTTP response', 'function'),
          row('HTTP in -> batcher -> stage -> HTTP response, compiled', 'pipeline'),
          row('the same through the flow', 'flow'),
        ],
        notes: [
          'Node-RED, engine, worker and load generator share the machine; httpAdminRoot is /editor (with / the throughput through flows is half).',
        ],
      },
    ],
    budgets: [
      atLeast({
        what: 'HTTP in -> pipeline -> HTTP response, compiled, of a function node in between',
        value: rate('pipeline') / rate('function'),
        limit: 2.5,
        unit: 'x',
        gates: true,
      }),
      atMost({
        what: "HTTP in -> pipeline -> HTTP response, compiled, Node-RED's thread",
        value: of('pipeline', ({ cpu }) => cpu),
        limit: 36,
        unit: 'µs',
        gates: true,
      }),
      atLeast({
        what: 'HTTP in -> pipeline -> HTTP response, through the flow, of a function node in between',
        value: rate('flow') / rate('function'),
        limit: 0.8,
        unit: 'x',
        gates: true,
      }),
    ],
  };
}
