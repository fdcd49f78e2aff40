/**
 * Each example flow, deployed as it is shipped, does what its comment says.
 * Shows: promise "Node-RED stays free", node modelet-stage, node modelet-runtime.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { pipelineOf } from '../../../src/node-red/pipeline.ts';
import { READY } from '../../fixtures/badges.ts';
import { linkModule } from '../../fixtures/link-module.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { NO_SQLITE } from '../../store/bed.ts';

const folder = join(repositoryRoot, 'examples');
const { images } = JSON.parse(readFileSync(join(repositoryRoot, 'assets', 'data', 'digits-test.json'), 'utf8')) as {
  images: { image: number[]; label: number }[];
};

const nodeRed = useNodeRed();

async function readExample(title: string): Promise<FlowNode[]> {
  return JSON.parse(await readFile(join(folder, `${title}.json`), 'utf8')) as FlowNode[];
}

/** Deploys an example, as `change` makes it; the node of a type and name is then found by `find`. */
async function deployExample(
  title: string,
  change: (flow: string) => string = (flow) => flow,
): Promise<(type: string, name?: string) => string> {
  const flow = JSON.parse(change(JSON.stringify(await readExample(title)))) as FlowNode[];
  await nodeRed.deployReady(flow);
  return (type, name) => {
    const found = flow.filter((node) => node.type === type && (name === undefined || node['name'] === name));
    assert.equal(found.length, 1, `${type} ${name}`);
    return (found[0] as FlowNode).id;
  };
}

/** All images, posted at the same time. */
function askAll(): Promise<{ digit: number }[]> {
  return Promise.all(
    images.map(async ({ image }) => {
      const response = await nodeRed.post('/predict/digits', { image });
      assert.equal(response.status, 200);
      return (await response.json()) as { digit: number };
    }),
  );
}

function warnings(): string[] {
  // Node-RED's levels: 20 error, 30 warn.
  return nodeRed.logs.filter((line) => /^[12]0 |^30 /.test(line));
}

describe('examples: all of them', () => {
  test('deploy side by side, and no node of theirs is invalid', async () => {
    await linkModule(nodeRed.userDir, 'jpeg-js');
    const titles = (await readdir(folder)).filter((file) => file.endsWith('.json')).map((file) => file.slice(0, -5));
    const nodes = (await Promise.all(titles.map(readExample))).flat();
    // The dashboard's own nodes are those of a package that is not installed here.
    const known = nodes.filter(({ type }) => !type.startsWith('ui-') && type !== 'global-config');
    await nodeRed.deploy(known);
    const { invalid, runtimes } = await nodeRed.snapshot();
    // A durable gate refuses a Node.js that has no SQLite, and the comment of its example says so.
    const durable = known.filter((node) => node['store'] === 'durable').map(({ id }) => id);
    assert.deepEqual(Object.keys(invalid), NO_SQLITE ? durable : [], JSON.stringify(invalid));
    const ids = runtimes.flatMap(({ stages }) => stages.map(({ id }) => id));
    const drawn = known.filter(({ type }) => type === 'modelet-stage').map(({ id }) => id);
    assert.deepEqual(ids.toSorted(), drawn.toSorted());
    await nodeRed.deploy([]);
  });
});

describe('examples: quick start', () => {
  let find: (type: string, name?: string) => string;
  before(async () => {
    find = await deployExample('Quick start - handwritten digits');
  });

  test('classifies at least 95 of 100 images correctly that are posted at the same time', async () => {
    const digits = await askAll();
    const right = images.filter(({ label }, index) => digits[index]?.digit === label).length;
    assert.ok(right >= 95, `${right} right`);
  });

  test('serves the page on which a digit is drawn', async () => {
    const response = await fetch(`${nodeRed.url}/digits`);
    assert.equal(response.status, 200);
    assert.match(String(response.headers.get('content-type')), /^text\/html/);
    const page = await response.text();
    assert.ok(page.length < 8_000, `${page.length} characters`);
    assert.doesNotMatch(page, /https?:/, 'it needs nothing from elsewhere');
  });

  test('its endpoints are compiled', () => {
    const { endpoints, uncompiled } = pipelineOf(nodeRed.red as never).deployment.compiled;
    assert.deepEqual([endpoints.map(({ path }) => path), uncompiled], [['/predict/digits', '/mine'], []]);
  });

  test('runs both stages as one route, in batches', async () => {
    const { routes, runtimes } = await nodeRed.snapshot();
    const route = routes.find(({ entry }) => entry === find('modelet-stage', 'normalise'));
    assert.deepEqual(route?.stages, [find('modelet-stage', 'normalise'), find('modelet-stage', 'classify')]);
    const classify = runtimes[0]?.stages.find(({ name }) => name === 'classify');
    assert.equal(classify?.batching.maxBatchSize, 32);
    // A worker that keeps up with what comes gets single items.
    await until('batches of more than one are counted', async () => {
      await askAll();
      const stages = (await nodeRed.snapshot()).runtimes[0]?.stages;
      const counted = stages?.find(({ name }) => name === 'classify');
      return counted && counted.items >= images.length && counted.batches < counted.items;
    });
  });

  test('answers an image of another shape with 422 and says why', async () => {
    const response = await nodeRed.post('/predict/digits', { image: [1, 2, 3] });
    assert.equal(response.status, 422);
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    assert.equal(error['code'], 'invalid_input');
    assert.equal(error['stage'], 'normalise');
    assert.match(String(error['message']), /^input\/image must NOT have fewer than 64 items$/);
    assert.deepEqual(error['details'], [
      { path: '/image', message: 'must NOT have fewer than 64 items', keyword: 'minItems' },
    ]);
    assert.deepEqual(Object.keys(error).sort(), ['code', 'details', 'message', 'requestId', 'stage']);
  });

  test('shows the digit of the button in the debug node and its badge, without a warning', async () => {
    const debug = find('debug');
    const answers = nodeRed.inputs(debug);
    const before = warnings().length;
    await nodeRed.press(find('inject'));
    const answer = await until('the answer is there', () => answers[0]);
    assert.equal((answer.payload as { digit: number }).digit, 7);
    await until('the badge shows it', () => nodeRed.badges.get(debug)?.text === '7');
    // The flows before had a broker, which they may still miss as they end.
    const others = warnings().slice(before);
    assert.deepEqual(
      others.filter((text) => !text.includes('the broker is unreachable')),
      [],
    );
  });
});

describe('examples: a flow of an earlier release', () => {
  test('runs although it names files in the folder that has moved', async () => {
    await deployExample('Quick start - handwritten digits', (flow) => {
      assert.match(flow, /pipeline\/assets\/modelets/);
      return flow.replaceAll('pipeline/assets/modelets', 'pipeline/examples/modelets');
    });
    const digits = await askAll();
    const right = images.filter(({ label }, index) => digits[index]?.digit === label).length;
    assert.ok(right >= 95, `${right} right`);
  });
});

describe('examples: batched against sequential', () => {
  test('shows both times, of which the batched one is shorter, and all results are right', async () => {
    const find = await deployExample('Batched against sequential');
    const reports = nodeRed.inputs(find('debug'));
    await nodeRed.press(find('inject'));
    const { payload } = await until('the report is there', () => reports[0]);
    const report = payload as Record<string, number>;
    assert.equal(report['requests'], 880);
    assert.equal(report['wrongResults'], 0);
    assert.ok((report['sequentialMs'] as number) > (report['batchedMs'] as number));
    assert.ok((report['timesFaster'] as number) > 1);
    await until('the badge shows them', () =>
      nodeRed.badges.get(find('function'))?.text?.endsWith(`= ${report['timesFaster']}`),
    );
    // One by one is 880 batches of one.
    await until('all is counted', async () => {
      const counted = (await nodeRed.snapshot()).runtimes[0]?.stages[0];
      return counted && counted.items === 1760 && counted.batches > 880 && counted.batches < 980;
    });
  });

  test('starts over when the button is pressed in the middle', async () => {
    const find = await deployExample('Batched against sequential');
    const reports = nodeRed.inputs(find('debug'));
    const requests = nodeRed.inputs(find('modelet-batcher'));
    await nodeRed.press(find('inject'));
    await until('it has begun', () => requests.length > 100);
    await nodeRed.press(find('inject'));
    const { payload } = await until('the report is there', () => reports[0]);
    assert.equal((payload as Record<string, number>)['wrongResults'], 0);
    assert.equal(reports.length, 1);
  });
});

test('examples: continuous batching writes the same texts as one at a time, and sooner', async () => {
  const find = await deployExample('Continuous batching of a toy model');
  const reports = nodeRed.inputs(find('debug'));
  await nodeRed.press(find('inject'));
  const { payload } = await until('the report is there', () => reports[0]);
  const report = payload as Record<string, number>;
  assert.deepEqual([report['texts'], report['words'], report['differentTexts']], [8, 140, 0]);
  assert.ok((report['timesFaster'] as number) > 1);
});

describe('examples: three stages with CPU pins', () => {
  let find: (type: string, name?: string) => string;
  before(async () => {
    find = await deployExample('Three stages with CPU pins');
  });

  test('doubles, adds three and formats, in one route', async () => {
    const results = nodeRed.inputs(find('debug', 'result'));
    await nodeRed.press(find('inject', '20'));
    const { payload, modelet } = await until('the result is there', () => results[0]);
    assert.equal(payload, 'the result is 43.00');
    assert.deepEqual(
      modelet?.stages.map(({ name }) => name),
      ['double', 'add 3', 'format'],
    );
    const { routes } = await nodeRed.snapshot();
    assert.equal(routes.find(({ entry }) => entry === find('modelet-stage', 'double'))?.stages.length, 3);
  });

  test('takes a burst of twenty and gives each its own result', async () => {
    const results = nodeRed.inputs(find('debug', 'result'));
    await nodeRed.press(find('inject', '1 to 20'));
    await until('all are there', () => results.length === 20);
    const expected = Array.from({ length: 20 }, (_, index) => `the result is ${(index + 1) * 2 + 3}.00`);
    assert.deepEqual(results.map(({ payload }) => payload).sort(), expected.sort());
  });

  test('pins each worker to its core, or says with a yellow badge that there is no such core', async () => {
    const { runtimes } = await nodeRed.snapshot();
    const [runtime] = runtimes;
    const double = runtime?.stages.find(({ name }) => name === 'double');
    const { fill } = await until('the badge says that the stage is ready', () => {
      const badge = nodeRed.badges.get(find('modelet-stage', 'double'));
      return READY.test(badge?.text?.replace(', not pinned', '') ?? '') && badge;
    });
    for (const worker of double?.workers ?? []) {
      const core = worker.index;
      const list = await readFile(`/proc/${worker.pid}/status`, 'utf8').then(
        (status) => /^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1],
        () => undefined,
      );
      if (runtime?.allowedCpus.includes(core) && list !== undefined) assert.equal(list, String(core));
    }
    const missing = [0, 1].filter(
      (core) => (runtime?.allowedCpus.length ?? 0) > 0 && !runtime?.allowedCpus.includes(core),
    );
    assert.equal(double?.pinWarnings.length, missing.length);
    if (missing.length > 0) assert.equal(fill, 'yellow');
  });
});

describe('examples: errors to the catch output', () => {
  let find: (type: string, name?: string) => string;
  before(async () => {
    find = await deployExample('Errors to the catch output');
  });

  test('shows results above and errors below', async () => {
    const results = nodeRed.inputs(find('debug', 'results'));
    const errors = nodeRed.inputs(find('debug', 'errors'));
    await nodeRed.press(find('inject', '16: has a root'));
    await nodeRed.press(find('inject', '"x": is refused'));
    await nodeRed.press(find('inject', '13: fails'));
    await until('all three are back', () => results.length + errors.length === 3);
    assert.deepEqual(
      results.map(({ payload }) => payload),
      [4],
    );
    assert.deepEqual(
      errors.map(({ error }) => error?.code),
      ['invalid_input', 'modelet_failed'],
    );
    assert.deepEqual(
      errors.map((msg) => msg['statusCode']),
      [422, 500],
    );
  });

  const answers: readonly (readonly [body: object, status: number, code?: string])[] = [
    [{ number: 16 }, 200],
    [{ number: 'x' }, 422, 'invalid_input'],
    [{ number: -1 }, 422, 'invalid_input'],
    [{}, 422, 'invalid_input'],
    [{ number: 13 }, 500, 'modelet_failed'],
  ];
  for (const [body, status, code] of answers) {
    test(`answers ${JSON.stringify(body)} with ${status} over HTTP`, async () => {
      const response = await nodeRed.post('/examples/square-root', body);
      assert.equal(response.status, status);
      const text = await response.text();
      if (code === undefined) assert.equal(text, '4');
      else assert.equal((JSON.parse(text) as { error: Message['error'] }).error?.code, code);
    });
  }
});

describe('examples: a canary and a shadow', () => {
  test('model 2 answers every tenth request until it is rolled back, and no client notices model 3', async () => {
    const find = await deployExample('Canary and shadow of a stage');
    const answers = nodeRed.inputs(find('function', 'count'));
    const countsAfter = async (button: string): Promise<Record<string, number>> => {
      await nodeRed.press(find('inject', button));
      await until('all 100 are back', () => answers.length === 100);
      const names = answers.splice(0).map(({ payload, error }) => {
        return (payload as { by?: string }).by ?? `${error?.stage} failed`;
      });
      return Object.fromEntries([...new Set(names)].map((name) => [name, names.filter((one) => one === name).length]));
    };
    assert.deepEqual(await countsAfter('numbers from 1'), { 'model 1': 90, 'model 2': 10 });
    assert.deepEqual(await countsAfter('numbers from 901'), { 'model 1': 90, 'model 2 failed': 10 });
    assert.deepEqual(await countsAfter('numbers from 901'), { 'model 1': 100 });
    const answer = await nodeRed.post('/examples/canary', { number: 4 });
    assert.deepEqual(await answer.json(), { by: 'model 1', result: 8 });
    await until('the badge says it', () => {
      return /^rolled back model 2/.test(nodeRed.badges.get(find('modelet-stage', 'model 1'))?.text ?? '');
    });
  });
});

describe('examples: a blocking function node beside a stage', () => {
  const LIMIT = 4_000_000;
  let find: (type: string, name?: string) => string;
  before(async () => {
    find = await deployExample('A blocking function node beside a stage');
  });

  /** Resolves with how long the counting took, and with the ticks of the clock meanwhile. */
  async function count(node: string, debug: string): Promise<{ primes: number; ms: number; ticks: number }> {
    const clock = nodeRed.inputs(find('function', 'clock'));
    const starts = nodeRed.inputs(node);
    const results = nodeRed.inputs(find('debug', debug));
    await until('the clock ticks', () => clock.length > 0);
    let ticksBefore = 0;
    nodeRed.node(node).on('input', () => {
      ticksBefore = clock.length;
    });
    nodeRed.send(node, { payload: LIMIT });
    const { payload } = await until('the count is there', () => results[0]);
    assert.equal(starts.length, 1);
    return { ...(payload as { primes: number; ms: number }), ticks: clock.length - ticksBefore };
  }

  test('the blocking function node stops the clock', async () => {
    const { primes, ms } = await count(find('function', 'count primes'), 'from the function node');
    assert.equal(primes, 283_146);
    await until('the clock has noticed', () => {
      const worst = /worst (\d+) ms/.exec(nodeRed.badges.get(find('function', 'clock'))?.text ?? '')?.[1];
      // Late by the whole time but for the part of it in which no tick was due.
      return worst !== undefined && Number(worst) >= ms - 101;
    });
  });

  test('the blocking stage lets the clock go on ticking', async () => {
    const { primes, ms, ticks } = await count(find('modelet-stage', 'count primes'), 'from the stage');
    assert.equal(primes, 283_146);
    // Ten a second, half of which may be lost to whatever else this machine does.
    assert.ok(ticks >= Math.floor(ms / 200), `${ticks} ticks in ${ms} ms`);
  });
});
