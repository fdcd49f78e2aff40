/** Known models from a hub, by the real download code, from a server that speaks the hub's protocol. */
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { TaskName } from '../../src/config/stage-source.ts';
import { type HubModel, neededFiles, parseHubName } from '../../src/config/tasks/hub-model.ts';
import { lookIntoFolder } from '../../src/config/tasks/model-folder.ts';
import { compileFlows } from '../../src/headless/compile-flows.ts';
import { readFlows } from '../../src/headless/flow-file.ts';
import { install } from '../../src/headless/install.ts';
import { Log, recordsTo } from '../../src/observe/log/log.ts';
import { Downloads, type WantedModel } from '../../src/runtime/service/models/downloads.ts';
import { FolderLock } from '../../src/runtime/service/models/folder-lock.ts';
import { ModelCache } from '../../src/runtime/service/models/model-cache.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { FakeHub } from '../fixtures/hub.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../fixtures/known-models.ts';
import { until } from '../fixtures/polling.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-hub-'));
const TASK: TaskName = 'text-classification';
const FILES = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.onnx'];
const model: HubModel = { name: 'tiny/words', revision: 'main' };
const wanted: WantedModel = { model, task: TASK, precision: 'auto', token: '' };
const source = writeKnownModel(join(folder, 'source'), KNOWN[TASK] as KnownModel);
const weights = readFileSync(join(source, 'onnx', 'model.onnx'));
writeFileSync(join(source, 'README.md'), 'no file of the task');
/** Bytes that come before a cut. */
const FIRST = 100;
let hub: FakeHub;
let cache: ModelCache;
let downloads: Downloads;
let caches = 0;

before(async () => {
  hub = await FakeHub.start({ [model.name]: source, 'tiny/more': source });
});
after(async () => {
  await hub.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  hub.asked.length = 0;
  hub.instead = () => undefined;
  hub.list = (files) => files;
  hub.token = '';
  caches += 1;
  cache = new ModelCache(join(folder, `cache-${caches}`));
  downloads = new Downloads(cache, hub.address);
});

const isWeights = (path: string | undefined): boolean => path?.endsWith('/model.onnx') === true;
const failure = async (given: Partial<WantedModel> = {}): Promise<unknown> =>
  downloads.run({ ...wanted, ...given }).then(
    (view) => ('code' in view ? view.code : view.state),
    ({ code }: { code: string }) => code,
  );
const isWhole = (): void => {
  assert.deepEqual(readFileSync(join(cache.pathOf(model), 'onnx', 'model.onnx')), weights);
  assert.equal(existsSync(join(cache.pathOf(model), '.parts')), false);
};

describe('a model by its name', () => {
  test('tells its files and sizes before the download, which brings just these, weights last', async () => {
    const plan = await downloads.look(wanted);
    assert.deepEqual(
      plan.files.map(({ name }) => name),
      [...FILES.slice(0, 3), 'onnx/model.onnx'],
    );
    assert.equal(
      plan.bytes,
      plan.files.reduce((sum, { size }) => sum + size, 0),
    );
    assert.deepEqual(hub.sent, []);
    assert.equal(existsSync(cache.folder), false, 'nothing is written');
    assert.deepEqual(await downloads.run(wanted), { model: 'tiny/words', state: 'done' });
    assert.deepEqual(hub.sent, FILES);
    isWhole();
    assert.equal(lookIntoFolder(cache.pathOf(model), TASK, 'auto').precision, 'fp32');
    const { missing, bytes } = await downloads.look(wanted);
    assert.deepEqual([missing, bytes], [[], 0]);
  });

  test('is listed with its size, and can be removed', async () => {
    await downloads.run(wanted);
    const [entry] = await cache.list();
    assert.deepEqual([entry?.model, entry?.isPartial], ['tiny/words', false]);
    assert.ok((entry?.bytes ?? 0) > weights.length);
    assert.equal(await cache.remove('..'), false);
    assert.equal(await cache.remove(entry?.folder ?? ''), true);
    assert.deepEqual(await cache.list(), []);
  });

  test('gives its token to the hub, and not to the host of the files', async () => {
    hub.token = 'secret';
    assert.equal(await failure(), 'no_access');
    assert.equal(await failure({ token: 'secret' }), 'done');
    for (const { host, token } of hub.asked.slice(1)) assert.equal(token, host === 'hub' ? 'Bearer secret' : undefined);
  });

  test('comes from the next hub when the first cannot be reached, without the token of the first', async () => {
    const gone = await FakeHub.start({});
    const { address } = gone;
    await gone.close();
    downloads = new Downloads(cache, [address, hub.address]);
    assert.equal(await failure({ token: 'secret' }), 'done');
    assert.ok(hub.asked.every(({ token }) => token === undefined));
  });

  test('that is not there, at a revision that is not there, and without a hub, has its code', async () => {
    assert.equal(await failure({ model: { name: 'tiny/none', revision: 'main' } }), 'not_found');
    assert.equal(await failure({ model: { ...model, revision: 'none' } }), 'not_found');
    assert.equal(await failure({ precision: 'q4' }), 'incomplete');
    downloads = new Downloads(cache, 'ftp://elsewhere');
    assert.equal(await failure(), 'hub_failed');
  });
});

describe('a download', () => {
  /** Sends the first part of the weights, and returns how to end it. Calls `come` when that is on the disk. */
  const sendFirst = (come: (own: Downloads, cut: () => void) => void): void => {
    let cut: (() => void) | null = null;
    hub.instead = ({ url }, response) => {
      if (!isWeights(url) || cut) return undefined;
      cut = () => response.destroy();
      response.writeHead(200, { 'content-length': weights.length });
      response.write(weights.subarray(0, FIRST));
      return true;
    };
    const changed = (): void => {
      const view = downloads.viewOf('tiny/words');
      if (view?.state === 'running' && cut && view.bytes === view.of - weights.length + FIRST) come(downloads, cut);
    };
    downloads = new Downloads(cache, hub.address, { changed });
  };

  test('goes on after a cut in the middle', async () => {
    sendFirst((_own, cut) => cut());
    assert.equal(await failure(), 'done');
    assert.deepEqual(hub.sent, [...FILES, 'model.onnx']);
    assert.equal(hub.asked.at(-1)?.range, `bytes=${FIRST}-`);
    isWhole();
  });

  test('begins anew where the server knows no ranges', async () => {
    sendFirst((_own, cut) => cut());
    const first = hub.instead;
    hub.instead = (request, response) => {
      if (first(request, response)) return true;
      if (request.headers.range === undefined) return undefined;
      response.end(weights);
      return true;
    };
    assert.equal(await failure(), 'done');
    isWhole();
  });

  test('is cancelled, and the next one goes on from there', async () => {
    sendFirst((own) => own.cancel('tiny/words'));
    assert.equal(await failure(), 'cancelled');
    assert.throws(() => lookIntoFolder(cache.pathOf(model), TASK, 'auto'), /lacks config.json/);
    assert.equal((await cache.list())[0]?.isPartial, true);
    downloads = new Downloads(cache, hub.address);
    assert.equal((await downloads.look(wanted)).bytes, weights.length - FIRST);
    assert.equal(await failure(), 'done');
    assert.equal(hub.sent.filter((name) => name === 'config.json').length, 1);
    assert.equal(hub.asked.at(-1)?.range, `bytes=${FIRST}-`);
    isWhole();
  });

  test('that waits for another one is cancelled at once, and the next one is not cancelled with it', async () => {
    let finish = (): void => {};
    hub.instead = ({ url }, response) => {
      if (!isWeights(url) || url?.startsWith('/tiny/more')) return undefined;
      finish = () => response.end(weights);
      return true;
    };
    const first = downloads.run(wanted);
    await until('the weights of the first are asked for', () => hub.sent.includes('model.onnx'));
    const more: WantedModel = { ...wanted, model: { name: 'tiny/more', revision: 'main' } };
    assert.equal((await downloads.start(more)).state, 'waiting');
    assert.equal(downloads.cancel('tiny/more'), true);
    const cancelled = { model: 'tiny/more', state: 'failed', code: 'cancelled', error: 'cancelled' };
    assert.deepEqual(downloads.viewOf('tiny/more'), cancelled);
    assert.equal((await downloads.start(more)).state, 'waiting');
    const next = downloads.run(more);
    finish();
    assert.deepEqual([(await first).state, (await next).state], ['done', 'done']);
    assert.deepEqual(downloads.viewOf('tiny/more'), { model: 'tiny/more', state: 'done' });
  });

  test('refuses content with another hash, or of another length, and keeps none of it', async () => {
    for (const wrong of [Buffer.alloc(weights.length), Buffer.alloc(weights.length + 1)]) {
      hub.instead = ({ url }, response) => {
        if (!isWeights(url)) return undefined;
        response.end(wrong);
        return true;
      };
      assert.equal(await failure(), 'wrong_content');
      assert.equal(existsSync(join(cache.pathOf(model), 'onnx')), false);
    }
    hub.instead = () => undefined;
    // The bytes that the last try has left are broken: they are fetched once more as a whole.
    const parts = join(cache.pathOf(model), '.parts');
    const [part = ''] = readdirSync(parts).filter((name) => name.endsWith('model.onnx'));
    truncateSync(join(parts, part), 10);
    assert.equal(await failure(), 'done');
    isWhole();
  });

  test('refuses a list with a file that would lie elsewhere', async () => {
    for (const rfilename of ['onnx/../../x.onnx', '/etc/x', 'C:x', 'a\\b', 'onnx//x', '']) {
      hub.list = (files) => [...files, { rfilename, size: 1 }];
      assert.equal(await failure(), 'unsafe_name', rfilename);
    }
    assert.deepEqual(hub.sent, []);
  });

  test('ends when the disk is full, or the limit of the models is reached', async () => {
    const { files } = await downloads.look(wanted);
    const part = cache.partOf(model, files.at(-1) as (typeof files)[number]);
    mkdirSync(join(part, '..'), { recursive: true });
    symlinkSync('/dev/full', part);
    assert.equal(await failure(), 'disk_full');
    cache = new ModelCache(cache.folder, 1e-6);
    downloads = new Downloads(cache, hub.address);
    assert.equal(await failure(), 'over_limit');
  });

  test('serves all who want the model at the same time, in this process and in others', async () => {
    const other = new Downloads(new ModelCache(cache.folder), hub.address);
    const ends = await Promise.all([downloads.run(wanted), downloads.run(wanted), other.run(wanted)]);
    assert.deepEqual(
      ends.map(({ state }) => state),
      ['done', 'done', 'done'],
    );
    assert.deepEqual(hub.sent, FILES);
  });

  test('of another precision adds its weights to the folder', async () => {
    await downloads.run(wanted);
    hub.asked.length = 0;
    writeKnownModel(source, KNOWN[TASK] as KnownModel, { suffix: '_fp16' });
    try {
      assert.equal(await failure({ precision: 'fp16' }), 'done');
      assert.deepEqual(hub.sent, ['model_fp16.onnx']);
    } finally {
      rmSync(join(source, 'onnx', 'model_fp16.onnx'));
    }
  });
});

test('the lock of a process that has died is taken away when it stays as it is', async () => {
  const clock = new FakeClock();
  mkdirSync(cache.folder, { recursive: true });
  writeFileSync(join(cache.folder, '.lock'), 'left over\n');
  let isTaken = false;
  const taken = FolderLock.take(cache.folder, new AbortController().signal, clock).then((lock) => {
    isTaken = true;
    return lock;
  });
  await until('it is taken away', () => {
    clock.advance(1000);
    return isTaken;
  });
  await (await taken).release();
  assert.equal(existsSync(join(cache.folder, '.lock')), false);
});

test('a process whose folder another has taken over leaves the lock of the other alone', async () => {
  const [asleep, clock] = [new FakeClock(), new FakeClock()];
  const [{ signal }, file] = [new AbortController(), join(cache.folder, '.lock')];
  const first = await FolderLock.take(cache.folder, signal, asleep);
  // The machine sleeps, but for the other process, which may be on another machine.
  let second: FolderLock | undefined;
  void FolderLock.take(cache.folder, signal, clock).then((lock) => {
    second = lock;
  });
  await until('the other takes it over', () => {
    clock.advance(1000);
    return second;
  });
  const taken = readFileSync(file, 'utf8');
  asleep.advance(60_000);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(readFileSync(file, 'utf8'), taken);
  await first.release();
  assert.equal(existsSync(file), true, 'the second has the folder');
  await second?.release();
  assert.equal(existsSync(file), false);
});

test('modelet serve --install downloads the models of stages that are not there', async () => {
  const userDir = join(folder, 'user');
  mkdirSync(userDir);
  writeFileSync(
    join(userDir, 'settings.js'),
    `module.exports = ${JSON.stringify({ modelets: { hub: hub.address } })};`,
  );
  const stage = { id: 's', type: 'modelet-stage', name: 'words', runtime: 'r', source: 'task', task: TASK, wires: [] };
  const flows = [
    { id: 'r', type: 'modelet-runtime' },
    { ...stage, model: model.name },
  ];
  writeFileSync(join(userDir, 'flows.json'), JSON.stringify(flows));
  const told: string[] = [];
  const log = Log.to(recordsTo(({ message, stage: of }) => told.push(`${of}: ${message}`)));
  const compiled = compileFlows(readFlows(userDir));
  hub.token = 'secret';
  await assert.rejects(install(compiled, 'r', log), /^Error: the model of the stage words is not downloaded: HTTP 401/);
  process.env['MODELET_HUB_TOKEN'] = 'secret';
  after(() => delete process.env['MODELET_HUB_TOKEN']);
  await install(compiled, 'r', log);
  assert.deepEqual(hub.sent, FILES);
  hub.asked.length = 0;
  await install(compiled, 'r', log);
  assert.deepEqual(hub.asked, [], 'it is there, so no hub is asked');
  assert.deepEqual(
    told,
    Array.from({ length: 2 }, () => 'words: looks for the model tiny/words'),
  );
});

describe('names and files', () => {
  test('a name has an owner, and may have a revision', () => {
    assert.deepEqual(parseHubName('Xenova/all-MiniLM-L6-v2'), { name: 'Xenova/all-MiniLM-L6-v2', revision: 'main' });
    assert.deepEqual(parseHubName('a/b@refs/pr/3'), { name: 'a/b', revision: 'refs/pr/3' });
    for (const text of [
      '',
      'model',
      './a/b',
      '../b',
      'a/..',
      'a/b/c',
      '/a/b',
      'a/b@',
      'a/b@../c',
      'a/b@x/../y',
      'a\\b',
    ]) {
      assert.equal(parseHubName(text), null, text);
    }
  });

  test('a task takes the networks that its library loads, with their data, in the precision that is asked for', () => {
    const names = (of: readonly string[], task: TaskName, precision = 'auto'): string[] => {
      const all = ['config.json', 'preprocessor_config.json', 'tokenizer.json', 'tokenizer_config.json', ...of];
      const files = all.map((name) => ({ name, size: 1, hash: null }));
      return neededFiles(files, task, precision)
        .map(({ name }) => name)
        .filter((name) => name.includes('onnx'));
    };
    const whisper = ['encoder_model', 'decoder_model', 'decoder_model_merged', 'decoder_with_past_model'].flatMap(
      (name) => ['', '_quantized'].map((ending) => `onnx/${name}${ending}.onnx`),
    );
    assert.deepEqual(names(whisper, 'automatic-speech-recognition', 'q8'), [
      'onnx/encoder_model_quantized.onnx',
      'onnx/decoder_model_merged_quantized.onnx',
    ]);
    const clip = ['onnx/model.onnx', 'onnx/text_model.onnx', 'onnx/vision_model.onnx'];
    assert.deepEqual(names(clip, 'image-feature-extraction'), ['onnx/vision_model.onnx']);
    assert.deepEqual(names(clip, 'zero-shot-image-classification'), ['onnx/model.onnx']);
    const large = [
      'onnx/model_fp16.onnx',
      'onnx/model_fp16.onnx_data',
      'onnx/model_fp16.onnx_data_1',
      'onnx/model_q4.onnx',
    ];
    assert.deepEqual(names(large, 'text-generation'), [...large.slice(1, 3), large[0]]);
    assert.deepEqual(names(['net.onnx'], 'image-classification'), ['net.onnx']);
    assert.throws(
      () => names([], 'image-classification', 'q8'),
      /^Error: it lacks weights as ONNX of the precision q8$/,
    );
  });
});
