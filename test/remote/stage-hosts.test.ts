/** Reports of worker hosts, fresh and stale, as the engine reads them, and a stage that a host declines. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { HostReport, PublishedStage } from '../../src/hosts/entries.ts';
import { StageHosts } from '../../src/hosts/stage-hosts.ts';
import { HostModels } from '../../src/hosts/worker-host/host-models.ts';
import { readHost } from '../../src/hosts/worker-host/host-options.ts';
import { installed } from '../../src/hosts/worker-host/installed-stage.ts';
import { Log, recordsTo } from '../../src/observe/log/log.ts';
import { BUILD_ID } from '../../src/process/build-id.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { FakeHub } from '../fixtures/hub.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../fixtures/known-models.ts';
import { until } from '../fixtures/polling.ts';
import { planned } from '../fixtures/stage-spec.ts';

const KEY = 'counts-1';
const METRIC = '{"type":"counter","name":"seen_total"}';
const NONE: ReadonlyMap<string, string> = new Map();

function report(seen: number, isLeaving = false, keysLost = 0): ReadonlyMap<string, string> {
  const own = { since: 2000, counts: { [METRIC]: { '[]': seen } }, dropped: 0, keysLost };
  const served = { workers: [], pinWarnings: [], description: null, error: null, own };
  const text: HostReport = { host: 'machine', pid: 1, isLeaving, stages: { [KEY]: served } };
  return new Map([['host', JSON.stringify(text)]]);
}

function counted(gains: readonly { readonly counts: object }[]): unknown[] {
  return gains.map(({ counts }) => counts);
}

test('what a host has counted last counts even where its report is read only when it is stale', () => {
  const hosts = new StageHosts(KEY, 1000);
  hosts.read({ fresh: report(11), stale: NONE });
  assert.deepEqual(counted(hosts.read({ fresh: NONE, stale: report(111, true) })), [{ [METRIC]: { '[]': 100 } }]);
  assert.deepEqual(counted(hosts.read({ fresh: NONE, stale: report(111, true) })), []);
});

test('keys that have lost their states on a host count once', () => {
  const hosts = new StageHosts(KEY, 1000);
  const lost = (keys: number): number[] =>
    hosts.read({ fresh: report(1, false, keys), stale: NONE }).map(({ keysLost }) => keysLost);
  assert.deepEqual([lost(0), lost(2), lost(2), lost(3)], [[0], [2], [], [1]]);
});

test('a host with a stale report serves no stage', () => {
  const hosts = new StageHosts(KEY, 1000);
  hosts.read({ fresh: report(1), stale: NONE });
  assert.equal(hosts.count, 1);
  hosts.read({ fresh: NONE, stale: report(1) });
  assert.equal(hosts.count, 0);
});

describe('a known model on a host', () => {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-host-'));
  const clock = new FakeClock();
  const told: string[] = [];
  const log = Log.to(recordsTo(({ message }) => told.push(message)));
  const rules = { secret: null, onlyLocalCode: false, stages: [], workers: null, cpus: null };
  let hub: FakeHub;
  before(async () => {
    const model = writeKnownModel(join(folder, 'there'), KNOWN['text-classification'] as KnownModel);
    hub = await FakeHub.start({ 'owner/model': model });
  });
  after(async () => {
    await hub.close();
    rmSync(folder, { recursive: true, force: true });
  });

  function published(): PublishedStage {
    const stage = planned({ id: 'mood', file: 'unused.js' });
    const source = {
      ...{ kind: 'task', task: 'text-classification', folder: '/srv/no-such-model', hub: 'owner/model' },
      ...{ subfolder: '', precision: 'auto', options: {}, soleWorker: false },
    };
    const modelet = { ...stage.modelet, source: source as unknown as typeof stage.modelet.source };
    return { build: BUILD_ID, key: KEY, stage: { ...stage, modelet }, file: null };
  }
  const models = (install: boolean): HostModels =>
    new HostModels({ modelets: { hub: hub.address, modelFolder: join(folder, 'models') } }, install, log, clock);

  test('is downloaded only for stages that are signed', () => {
    const args = ['--broker', 'redis://127.0.0.1:1', '--runtime', 'default', '--code', 'local'];
    assert.equal(readHost(args).install, false);
    assert.throws(() => readHost([...args, '--install']), /^Error: --install downloads .*: give --secret-file/);
  });

  test('is declined by name if the host may not download it', async () => {
    await assert.rejects(installed(published(), rules, models(false)), {
      code: 'config_invalid',
      message:
        /^the host has no folder \/srv\/no-such-model with the model owner\/model: start it with --install, copy/,
    });
  });

  test('is downloaded before the stage is served, and again some time after a failure', async () => {
    const host = models(true);
    const find = (): Promise<unknown> => installed(published(), rules, host);
    hub.token = 'secret';
    assert.equal(await find(), null);
    await until('the hub has refused', async () => (await find().catch((error: Error) => error)) instanceof Error);
    await assert.rejects(find(), {
      code: 'config_invalid',
      message: /^the model owner\/model is not downloaded: HTTP 401/,
    });
    hub.token = '';
    clock.advance(60_000);
    assert.equal(await find(), null, 'it tries again');
    const found = (await until('the model is whole', find)) as { modelet: { source: { folder: string } } };
    assert.equal(found.modelet.source.folder, join(folder, 'models', 'owner--model@main'));
    assert.deepEqual(
      told,
      Array.from({ length: 2 }, () => 'downloads the model owner/model'),
    );
    hub.asked.length = 0;
    assert.ok(await installed(published(), rules, models(false)), 'what is there needs no --install');
    assert.deepEqual(hub.asked, []);
  });
});
