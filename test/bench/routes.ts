/** Part f: what further stages, forks and switches cost Node-RED's thread, in the engine and through the flow. */
import { gather } from '../fixtures/drawn.ts';
import { batcher as batch, completeNode, func, node, runtime, sink, stage, TAB } from '../fixtures/flow.ts';
import { type FlowNode, NodeRed } from '../fixtures/node-red.ts';
import { interleave, medianOf, threadCpu } from './measure.ts';
import { atMost, figure, type Part, type PartResult, ratio } from './report.ts';

const IN_FLIGHT = 256;
const WINDOW_OF_STAGE = { maxBatchSize: 32 };
const PAYLOAD = { sensor: 'press-7', values: [21.5, 0.25, 1013.2, 48.75], status: { ok: true, mode: 'auto' } };

const CHAINS = { one: 1, fused: 3, unfused: 3 } as const;
type Chain = keyof typeof CHAINS;

/** Whether the engine runs the fork or the switch, or Node-RED, because a Complete node watches. */
const FORKS = { ensemble: true, 'ensemble-apart': false, switch: true, 'switch-apart': false } as const;
type Forked = keyof typeof FORKS;

export const routes: Part = {
  letter: 'f',
  title: 'stages in a row, side by side and behind a switch, as one route and apart',
  async run({ rounds, seconds }): Promise<PartResult> {
    const red = await NodeRed.start();
    try {
      const [chains, forks] = [Object.keys(CHAINS) as Chain[], Object.keys(FORKS) as Forked[]];
      const names = [...chains, ...forks];
      await red.deploy([TAB, runtime(), ...chains.flatMap(chain), ...forks.flatMap(forked)]);
      await red.whenReady();
      const subject = (name: Chain | Forked) => () => drive(red, name, seconds * 1000);
      for (const name of names) await subject(name)();
      const costs = await interleave(rounds, {
        one: subject('one'),
        fused: subject('fused'),
        unfused: subject('unfused'),
        ensemble: subject('ensemble'),
        'ensemble-apart': subject('ensemble-apart'),
        switch: subject('switch'),
        'switch-apart': subject('switch-apart'),
      });
      const cost = (name: Chain | Forked): number => medianOf(costs[name], (value) => value);
      const row = (title: string, name: Chain | Forked): string[] => [
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
              row('a stage and an ensemble of two, one route', 'ensemble'),
              row('a stage and an ensemble of two, through the flow', 'ensemble-apart'),
              row('a stage and one of two behind a switch, one route', 'switch'),
              row('a stage and one of two behind a switch, through the flow', 'switch-apart'),
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

/** `[batcher] -> stage -> {stage, stage} -> [sink]`: side by side and gathered, or one of them behind a switch node. */
function forked(name: Forked): FlowNode[] {
  const isEnsemble = name.startsWith('ensemble');
  const [left, right, meet, choose] = ['left', 'right', 'meet', 'choose'].map((one) => `${name}-${one}`) as [
    string,
    string,
    string,
    string,
  ];
  const inBatches = (id: string, to: string | readonly string[]): FlowNode[] => [
    batch(`${id}-batch`, id, WINDOW_OF_STAGE),
    stage(id, 'return input;', to, { overflow: 'wait', capacity: 4096 }),
  ];
  const [toLeft, toRight] = [`${left}-batch`, `${right}-batch`];
  const rules = [{ t: 'eq', v: 'press-7', vt: 'str' }, { t: 'else' }];
  const settings = { property: 'payload.sensor', propertyType: 'msg', checkall: 'true', repair: false, outputs: 2 };
  const between = isEnsemble
    ? gather(meet, `${name}-end`)
    : node(choose, 'switch', [toLeft, toRight], { ...settings, rules });
  return [
    batch(`${name}-batch-0`, `${name}-front`, WINDOW_OF_STAGE),
    stage(`${name}-front`, 'return input;', isEnsemble ? [toLeft, toRight] : choose, {
      overflow: 'wait',
      capacity: 4096,
    }),
    ...inBatches(left, isEnsemble ? meet : `${name}-end`),
    ...inBatches(right, isEnsemble ? meet : `${name}-end`),
    between,
    sink(`${name}-end`),
    ...(FORKS[name] ? [] : [completeNode(`${name}-complete`, [between.id], [])]),
  ];
}

/** Keeps messages in flight for a while and returns microseconds of this process's main thread per message. */
async function drive(red: NodeRed, name: Chain | Forked, ms: number): Promise<number> {
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
