/** Saving the file of a stage with `watch`, while clients post: the newest content that works is what answers. */
import assert from 'node:assert/strict';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';

const CLIENTS = 8;
const WORKERS = 2;

interface Language {
  readonly source: string;
  readonly file: string;
  /** Code that answers with its version and the input. */
  code(version: number): string;
  /** Code that does not load, and what the badge says of it. */
  readonly broken: string;
  readonly why: RegExp;
}

const JAVASCRIPT: Language = {
  source: 'file',
  file: 'model.mjs',
  code: (version) => `export default (input) => ({ version: ${version}, input });`,
  broken: 'export default (input) => {',
  why: /^new code fails: .*Unexpected end/,
};

const PYTHON: Language = {
  source: 'python',
  file: 'model.py',
  code: (version) => `def predict(input):\n    return {"version": ${version}, "input": input}\n`,
  broken: 'def predict(input):\n',
  why: /^new code fails: line \d+: (?:expected an indent|unexpected EOF)/,
};

describe('hot edits', () => {
  const red = useNodeRed();

  const flows = ({ source, file }: Language, watch: boolean): FlowNode[] => [
    TAB,
    runtime(),
    ...endpoint('/ask', source),
    // By its source, or those of the other language would serve until it is ready.
    stage(source, '', 'collector /ask', { source, path: file, watch, workers: String(WORKERS) }),
  ];

  /**
   * Posts until stopped. Every answer must be a result, the caller's own, and of no older code than any that had come
   * when it was asked for.
   */
  function load(): { readonly versions: number[]; stop(): Promise<void> } {
    const versions: number[] = [];
    let stopped = false;
    let number = 0;
    let newest = 0;
    const client = async (): Promise<void> => {
      while (!stopped) {
        const mine = ++number;
        const atLeast = newest;
        const response = await red.post('/ask', { mine });
        const text = await response.text();
        assert.equal(response.status, 200, text);
        const { version, input } = JSON.parse(text) as { version: number; input: unknown };
        assert.deepEqual(input, { mine });
        assert.ok(version >= atLeast, `${version} after ${atLeast}`);
        newest = Math.max(newest, version);
        versions.push(version);
      }
    };
    const clients = Promise.all(Array.from({ length: CLIENTS }, client));
    // `stop` reports failures.
    clients.catch(() => {});
    return {
      versions,
      stop: async () => {
        stopped = true;
        await clients;
      },
    };
  }

  const badge = (stage: string): string => red.badges.get(stage)?.text ?? '';
  const answer = async (): Promise<number> => {
    const { version } = (await (await red.post('/ask', {})).json()) as { version: number };
    return version;
  };
  const pids = async (): Promise<(number | null)[]> => {
    const { runtimes } = await red.whenReady();
    return runtimes.flatMap(({ stages }) => stages.flatMap(({ workers }) => workers.map(({ pid }) => pid)));
  };
  /** A worker that starts runs what the file has in it by then: the next save waits for all that the last has brought. */
  const allReady = (before: readonly (number | null)[]): Promise<(number | null)[]> =>
    until('all new workers are ready', async () => {
      const { runtimes } = await red.snapshot();
      const workers = runtimes.flatMap(({ stages }) => stages.flatMap((one) => one.workers));
      const found = workers.map(({ pid }) => pid);
      const ready = workers.filter(({ pid, state }) => state === 'ready' && !before.includes(pid));
      return found.length === WORKERS && ready.length === WORKERS && found;
    });

  for (const language of [JAVASCRIPT, PYTHON]) {
    const { source, file, code, broken, why } = language;
    const skip = source === 'python' && WITHOUT_PYTHON;

    test(`${source}: no request is lost, and the old code stays if the new code does not load`, { skip }, async (t) => {
      const path = join(red.userDir, file);
      await writeFile(path, code(1));
      await red.deployReady(flows(language, true));
      const { versions, stop } = load();
      t.after(stop);
      await until('the first answers', () => versions.length > CLIENTS);
      const first = await allReady([]);

      await writeFile(path, code(2));
      await until('the new code answers', () => versions.at(-1) === 2);
      await allReady(first);

      const told = (): number => red.logs.filter((line) => line.includes('does not start')).length;
      const before = told();
      await writeFile(path, broken);
      await until('the badge says why', () => why.test(badge(source)));
      assert.equal(told() - before, 1, 'one line of the log says it, for both workers');
      assert.equal(versions.at(-1), 2);

      await writeFile(`${path}.tmp`, code(3));
      await rename(`${path}.tmp`, path);
      await until('the repaired code answers', () => versions.at(-1) === 3);
      await until('the badge is content', () => READY.test(badge(source)));
      await stop();
      assert.deepEqual([...new Set(versions)], [1, 2, 3]);
    });
  }

  test('a deploy keeps the workers that a save started, also a deploy that ends the watching', async () => {
    const path = join(red.userDir, JAVASCRIPT.file);
    await writeFile(path, JAVASCRIPT.code(4));
    await red.deploy(flows(JAVASCRIPT, true));
    await until('the first code answers', async () => (await answer()) === 4);
    const before = await pids();
    await writeFile(path, JAVASCRIPT.code(5));
    await until('the new code answers', async () => (await answer()) === 5);
    const saves = (): number => red.logs.filter((line) => line.includes('has been saved')).length;
    const saved = saves();
    const present = await until('the snapshot has the new workers', async () => {
      const found = await pids();
      return found.every((pid) => !before.includes(pid)) && found;
    });
    await red.deploy([...flows(JAVASCRIPT, true), { id: 'other', type: 'tab', label: 'other' }]);
    assert.deepEqual(await pids(), present);
    // The file is not watched any more, and the workers stay.
    await red.deploy(flows(JAVASCRIPT, false));
    await writeFile(path, JAVASCRIPT.code(6));
    await red.deploy(flows(JAVASCRIPT, true));
    assert.deepEqual([await pids(), await answer(), saves()], [present, 5, saved]);
  });

  test('a new engine watches the file like the engine before it', async () => {
    const path = join(red.userDir, JAVASCRIPT.file);
    await writeFile(path, JAVASCRIPT.code(7));
    const { runtimes } = await red.deployReady(flows(JAVASCRIPT, true));
    const pid = runtimes[0]?.engine.pid as number;
    process.kill(pid, 'SIGKILL');
    await until('another engine runs', async () => {
      const engine = (await red.snapshot()).runtimes[0]?.engine;
      return engine?.pid !== pid && engine?.pid !== null;
    });
    await red.whenReady();
    await writeFile(path, JAVASCRIPT.code(8));
    await until('the new code answers', async () => (await answer()) === 8);
  });
});
