/** Part g: many senders and a metric that is seconds old, under this gate and under gates that ask it at each poll. */
import { gated, type MakeEntry, openOrClosed, quotaEachPoll, type Scene, simulate } from '../gate/senders.ts';
import { atMost, type Budget, figure, type Part, type PartResult, type Table } from './report.ts';

const SCENE: Scene = {
  senders: 64,
  others: 0,
  maxSys: 32,
  threshold: 0.8,
  scrapeMs: 5000,
  pollMs: 1000,
  serviceMs: [1000, 4000],
  forMs: 600_000,
};
const GATES: readonly (readonly [string, MakeEntry])[] = [
  ['open below the threshold, looked at by each sender at each poll', openOrClosed],
  ['N = max_SYS x (D - B) at each poll', quotaEachPoll],
  ['the dispatch gate', gated],
];

export const overshoot: Part = {
  letter: 'g',
  title: 'a dispatch gate on a metric that is 5 s old, in simulated time',
  async run(): Promise<PartResult> {
    const alone = await compare(SCENE, 'nobody else');
    const beside = await compare({ ...SCENE, others: 12 }, '12 interactive senders that ask no gate');
    return { tables: [alone.table, beside.table], budgets: [...alone.budgets, ...beside.budgets] };
  },
};

async function compare(scene: Scene, who: string): Promise<{ table: Table; budgets: Budget[] }> {
  const { senders, maxSys, threshold, scrapeMs, pollMs, serviceMs, forMs } = scene;
  const rows: string[][] = [];
  const budgets: Budget[] = [];
  for (const [name, makeEntry] of GATES) {
    const { average, highest, mostInFlight, finished } = await simulate(scene, makeEntry);
    rows.push([name, figure(average), figure(highest), String(mostInFlight), figure((finished / forMs) * 1000)]);
    if (makeEntry !== gated) continue;
    const what = `highest saturation under the gate, ${who} beside it`;
    budgets.push(atMost({ what, value: highest, limit: threshold, unit: '', gates: true }));
  }
  const [least, most] = serviceMs.map((ms) => ms / 1000);
  return {
    table: {
      title: `g. Saturation at a threshold of ${threshold}, ${who} beside it`,
      columns: ['gate', 'average', 'highest', 'most in flight', 'requests/s'],
      rows,
      notes: [
        `Simulated time: ${forMs / 1000} s of ${senders} senders that never stop, a server that takes ${maxSys} at a time for ${least} to ${most} s each and queues the rest, a metric scraped every ${scrapeMs / 1000} s and read every ${pollMs / 1000} s.`,
      ],
    },
    budgets,
  };
}
