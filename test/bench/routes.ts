/** Part f: what further stages cost Node-RED's thread, as one route and with a node in between each two. */
import { batcher as batch, func, runtime, sink, stage, TAB } from '../fixtures/flow.ts';
import { type FlowNode, NodeRed } from '../fixtures/node-red.ts';
import { interleave, medianOf, threadCpu } from './measure.ts';
import { atMost, figure, type Part, type PartResult, ratio } from './report.ts';

const IN_FLIGHT = 256;
const WINDOW_OF_STAGE = { maxBatchSize: 32 };
const PAYLOAD = { sensor: 'press-7', values: [21.5, 0.25, 1013.2, 48.75], status: { ok: true, mode: 'auto' } };

const CHAINS = { one: 1, fused: 3, unfused: 3 } as const;
type Chain = keyof typeof CHAINS;

export const routes: Part = {
  letter: 'f',
  title: 'one stage, three stages as one route, three stages apart',
  async run({ rounds, seconds }): Promise<PartResult> {
    const red = await NodeRed.start();
    try {
      const names = Object.keys(CHAINS) as Chain[];
      await red.deploy([TAB, runtime(), ...names.flatMap(chain)]);
      await red.whenReady();
      const subject = (name: Chain) => () => drive(red, name, seconds * 1000);
      for (const name of names) await subject(name)();
      const costs = await interleave(rounds, {
        one: subject('one'),
        fused: subject('fused'),
        unfused: subject('unfused'),
      });
      const cost = (name: Chain): number => medianOf(costs[name], (value) => value);
      const row = (title: string, name: Chain): string[] => [
        title,
        figure(cost(name)),
        ratio(cost(name) / cost('one')),
      ];
      return {
        tables: [
          {
            title: "f. CPU per message on Node-RED's thread",
            columns: ['flow', 'us', 'against one stage'],
            rows: [
              row('one stage', 'one'),
              row('three stages, one route', 'fused'),
              row('three stages, a function node between each two', 'unfused'),
            ],
            notes: [`${IN_FLIGHT} messages in flight, batches of 32, stages that return their input.`],
          },
        ],
        budgets: [
          atMost({
            what: "three fused stages against one, CPU on Node-RED's thread",
            value: cost('fused') / cost('one'),
            limit: 1.3,
            unit: 'x',
            gates: true,
          }),
        ],
      };
    } finally {
      await red.stop();
    }
  },
};

/** `[batcher] -> stage -> ... -> [sink]`, with function nodes in between for the chain that is to be apart. */
function chain(name: Chain): FlowNode[] {
  const count = CHAINS[name];
  const nodes = Array.from({ length: count }, (_, index) => {
    const last = index === count - 1;
    const next = last ? `${name}-end` : `${name}-batch-${index + 1}`;
    const between = name === 'unfused' && !last ? [func(`${name}-between-${index}`, 'return msg;', next)] : [];
    return [
      batch(`${name}-batch-${index}`, `${name}-stage-${index}`, WINDOW_OF_STAGE),
      stage(`${name}-stage-${index}`, 'return input;', between[0]?.id ?? next, { overflow: 'wait', capacity: 4096 }),
      ...between,
    ];
  });
  return [...nodes.flat(), sink(`${name}-end`)];
}

/** Keeps messages in flight for a while and returns microseconds of this process's main thread per message. */
async function drive(red: NodeRed, name: Chain, ms: number): Promise<number> {
  const first = red.red.nodes.getNode(`${name}-batch-0`);
  const end = red.red.nodes.getNode(`${name}-end`);
  if (!first || !end) throw new Error(`chain ${name} is not deployed`);
  const send = (): void => first.receive({ payload: PAYLOAD });
  const stopAt = performance.now() + ms;
  const cpuBefore = threadCpu(process.pid);
  let through = 0;
  let open = 0;
  return new Promise((resolve) => {
    const arrived = (): void => {
      through += 1;
      open -= 1;
      if (performance.now() < stopAt) {
        open += 1;
        send();
      } else if (open === 0) {
        (end as unknown as { removeListener(event: string, listener: () => void): void }).removeListener(
          'input',
          arrived,
        );
        resolve((threadCpu(process.pid) - cpuBefore) / through);
      }
    };
    end.on('input', arrived);
    for (; open < IN_FLIGHT; open += 1) send();
  });
}
