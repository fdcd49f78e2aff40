/** Ways to load something: so many requests in flight all the time, one after the other, all at once. */
import { processCpu, sleep, threadCpu } from './measure.ts';

/** Sends one value; `settled` is called with the result, or with an Error. */
export type Send = (value: unknown, settled: (result: unknown) => void) => void;

/** CPU time in microseconds by who spent it. */
export interface CpuShares {
  /** Main thread of this process, which stands for Node-RED's. */
  readonly main: number;
  readonly engine: number;
  readonly workers: number;
  /** All threads of all processes. */
  readonly all: number;
}

export interface Processes {
  readonly engine?: number;
  readonly workers?: readonly number[];
}

export interface LoopResult {
  readonly itemsPerSecond: number;
  /** Per item. */
  readonly cpu: CpuShares;
}

/** Time for queues to fill and code to be compiled before the measuring begins. */
const WARM_UP_MS = 250;

/** Time for the queues to fill to what they keep while more comes than can be done. */
const FILL_MS = 500;

/** Keeps `inFlight` requests open for `seconds` and tells what one cost. */
export async function closedLoop(
  send: Send,
  makeValue: () => unknown,
  load: { readonly inFlight: number; readonly seconds: number; readonly processes?: Processes },
): Promise<LoopResult> {
  let items = 0;
  let open = 0;
  let running = true;
  let failure: Error | null = null;
  let ended: () => void = () => {};
  const end = new Promise<void>((resolve) => {
    ended = resolve;
  });
  const settled = (result: unknown): void => {
    open -= 1;
    items += 1;
    if (result instanceof Error) failure = result;
    if (running) next();
    else if (open === 0) ended();
  };
  const next = (): void => {
    open += 1;
    send(makeValue(), settled);
  };
  for (let index = 0; index < load.inFlight; index += 1) next();
  await sleep(WARM_UP_MS);
  const before = { items, at: performance.now(), cpu: readCpu(load.processes) };
  await sleep(load.seconds * 1000);
  const count = items - before.items;
  const elapsed = (performance.now() - before.at) / 1000;
  const cpu = readCpu(load.processes);
  running = false;
  await end;
  if (failure) throw failure;
  return {
    itemsPerSecond: count / elapsed,
    cpu: {
      main: (cpu.main - before.cpu.main) / count,
      engine: (cpu.engine - before.cpu.engine) / count,
      workers: (cpu.workers - before.cpu.workers) / count,
      all: (cpu.all - before.cpu.all) / count,
    },
  };
}

function readCpu({ engine, workers = [] }: Processes = {}): CpuShares {
  const engineCpu = engine === undefined ? 0 : processCpu(engine);
  const workersCpu = workers.reduce((total, pid) => total + processCpu(pid), 0);
  return {
    main: threadCpu(process.pid),
    engine: engineCpu,
    workers: workersCpu,
    all: processCpu(process.pid) + engineCpu + workersCpu,
  };
}

/** The outcomes of requests that were sent at a rate, independent of the answers. */
export interface Offered {
  /** Answered with a result, while requests kept coming. */
  readonly perSecond: number;
  /** How long each took that was answered with a result then. */
  readonly ms: readonly number[];
}

/**
 * Sends at a rate, and waits for the last answer. Only results count that come after the queues have had time to
 * fill and before the last request is sent; a request that is refused at once, or ends in an error, does not count.
 */
export async function openLoop(
  send: Send,
  makeValue: () => unknown,
  load: { readonly perSecond: number; readonly seconds: number; readonly isRandom?: boolean },
): Promise<Offered> {
  const ms: number[] = [];
  const startedAt = performance.now();
  const countedFrom = startedAt + FILL_MS;
  const countedUntil = countedFrom + load.seconds * 1000;
  const request = (): Promise<void> =>
    new Promise((resolve) => {
      const sentAt = performance.now();
      const settled = (result: unknown): void => {
        const now = performance.now();
        if (!(result instanceof Error) && now >= countedFrom && now < countedUntil) ms.push(now - sentAt);
        resolve();
      };
      try {
        send(makeValue(), settled);
      } catch (refused) {
        settled(refused);
      }
    });
  const requests: Promise<void>[] = [];
  let dueAt = startedAt;
  for (let now = startedAt; now < countedUntil; now = performance.now()) {
    for (; dueAt < now; dueAt += ((load.isRandom ? -Math.log(1 - Math.random()) : 1) * 1000) / load.perSecond)
      requests.push(request());
    await sleep(1);
  }
  await Promise.all(requests);
  return { perSecond: ms.length / load.seconds, ms };
}

/** Sends values one after the other, `gapMs` between them; milliseconds that each took. */
export async function oneByOne(
  send: Send,
  makeValue: (index: number) => unknown,
  count: number,
  gapMs = 0,
): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; index < count; index += 1) {
    if (gapMs > 0) await sleep(gapMs);
    const startedAt = performance.now();
    await new Promise<void>((resolve, reject) => {
      send(makeValue(index), (result) => (result instanceof Error ? reject(result) : resolve()));
    });
    times.push(performance.now() - startedAt);
  }
  return times;
}

/** Sends all values in one turn; the results in order and the milliseconds until the last one. */
export async function allAtOnce(send: Send, values: readonly unknown[]): Promise<{ results: unknown[]; ms: number }> {
  const startedAt = performance.now();
  const results = await Promise.all(
    values.map(
      (value) =>
        new Promise<unknown>((resolve, reject) => {
          send(value, (result) => (result instanceof Error ? reject(result) : resolve(result)));
        }),
    ),
  );
  return { results, ms: performance.now() - startedAt };
}
