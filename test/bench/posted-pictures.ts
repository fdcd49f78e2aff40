/** Part d: Node-RED's event loop while pictures are posted to a known model, through Node-RED's server and the engine's listener. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodePng } from '../../src/core/pictures/png.ts';
import { freePort } from '../fixtures/free-port.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../fixtures/known-models.ts';
import { batcher, httpPair, node, sink, TAB } from './flows.ts';
import { loadHttp } from './http-load.ts';
import { interleave, medianOf } from './measure.ts';
import { RedProcess } from './red-client.ts';
import type { Driven } from './red-process.ts';
import { atMost, figure, type PartResult, type Scale } from './report.ts';

const CONNECTIONS = 8;
/** Until the load is there, and a little longer than what is measured. */
const AROUND_SECONDS = 1;
/** Sides of pictures with a grain, whose files have so many bytes. */
const SIDES = { '150 KB': 224, '2 MB': 830 } as const;

type Size = keyof typeof SIDES;

const pictureOf = (side: number): Promise<Buffer> =>
  encodePng({ data: randomBytes(side * side * 3), width: side, height: side, channels: 3 });

export async function postedPictures({ rounds, seconds }: Scale): Promise<PartResult> {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-posted-'));
  const listen = `127.0.0.1:${await freePort()}`;
  const red = await RedProcess.start();
  try {
    const model = writeKnownModel(folder, KNOWN['object-detection'] as KnownModel);
    const way = (name: string) => {
      const known = { runtime: name, source: 'task', task: 'object-detection', model, init: '{"threads":1}' };
      const stage = node(`${name}-stage`, 'modelet-stage', [`${name}-way-out`], { name, ...known });
      return [...httpPair(`${name}-way`, `${name}-batcher`), batcher(`${name}-batcher`, stage.id), stage];
    };
    await red.deploy([
      { id: TAB, type: 'tab', label: 'bench' },
      { id: 'drawn', type: 'modelet-runtime', name: 'by Node-RED' },
      { id: 'listener', type: 'modelet-runtime', name: 'by the engine', listen },
      ...way('drawn'),
      ...way('listener'),
      sink('sink'),
    ]);
    const bodies = { '150 KB': await pictureOf(SIDES['150 KB']), '2 MB': await pictureOf(SIDES['2 MB']) };
    const watch = (): Promise<Driven> => red.drive({ entry: 'sink', sink: 'sink', seconds });
    const beside = async (load: Promise<unknown>): Promise<Driven> => (await Promise.all([watch(), load]))[0];
    const posted = (origin: string, path: string, size: Size) => () => {
      const to = { url: `${origin}/${path}-way`, body: bodies[size], contentType: 'image/png' };
      return beside(loadHttp({ ...to, connections: CONNECTIONS, seconds: seconds + AROUND_SECONDS }));
    };
    const ways = {
      'drawn endpoint, 150 KB': posted(red.url, 'drawn', '150 KB'),
      'drawn endpoint, 2 MB': posted(red.url, 'drawn', '2 MB'),
      "engine's listener, 150 KB": posted(`http://${listen}`, 'listener', '150 KB'),
      "engine's listener, 2 MB": posted(`http://${listen}`, 'listener', '2 MB'),
    };
    for (const post of Object.values(ways)) await post();
    return tell(await interleave(rounds, { idle: watch, [BUSY]: () => beside(allBusy(seconds)), ...ways }));
  } finally {
    await red.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What a model at full load does to the loop by its need of cores alone. */
const BUSY = 'programs on all cores';

async function allBusy(seconds: number): Promise<void> {
  const code = `const end = Date.now() + ${(seconds + AROUND_SECONDS) * 1000}; while (Date.now() < end);`;
  await Promise.all(cpus().map(() => once(spawn(process.execPath, ['-e', code], { stdio: 'ignore' }), 'exit')));
}

function tell(driven: Readonly<Record<string, readonly Driven[]>>): PartResult {
  const late = (name: string): number => medianOf(driven[name] ?? [], ({ timers }) => timers.p99);
  const rows = Object.entries(driven).map(([name, each]) => [
    name,
    figure(medianOf(each, ({ utilization }) => utilization) * 100),
    ...(['p50', 'p99', 'max'] as const).map((of) => figure(medianOf(each, ({ timers }) => timers[of]))),
  ]);
  const against = (name: string): number => late(name) / Math.max(late('idle'), late(BUSY));
  return {
    tables: [
      {
        title: "d. Node-RED's event loop while pictures are posted to a known model at full load",
        columns: ['meanwhile', 'loop busy %', 'timer late p50 ms', 'p99', 'max'],
        rows,
        notes: [`${CONNECTIONS} connections, each with its next picture when it has its answer.`],
      },
    ],
    budgets: Object.keys(driven)
      .filter((name) => name.startsWith('engine'))
      .map((name) =>
        atMost({
          ...{ what: `1 ms timer p99, pictures by the ${name}, of programs on all cores`, unit: 'x', gates: false },
          ...{ value: against(name), limit: 1.5 },
        }),
      ),
  };
}
