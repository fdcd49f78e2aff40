/** Reports of worker hosts, fresh and stale, as the engine reads them, and a stage that a host declines. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostReport } from '../../src/hosts/entries.ts';
import { StageHosts } from '../../src/hosts/stage-hosts.ts';
import { installed } from '../../src/hosts/worker-host/installed-stage.ts';
import { BUILD_ID } from '../../src/process/build-id.ts';
import { planned } from '../fixtures/stage-spec.ts';

const KEY = 'counts-1';
const METRIC = '{"type":"counter","name":"seen_total"}';
const NONE: ReadonlyMap<string, string> = new Map();

function report(seen: number, isLeaving = false): ReadonlyMap<string, string> {
  const own = { since: 2000, counts: { [METRIC]: { '[]': seen } }, dropped: 0 };
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

test('a host with a stale report serves no stage', () => {
  const hosts = new StageHosts(KEY, 1000);
  hosts.read({ fresh: report(1), stale: NONE });
  assert.equal(hosts.count, 1);
  hosts.read({ fresh: NONE, stale: report(1) });
  assert.equal(hosts.count, 0);
});

test('a host without the folder of a known model declines its stage, and names the model', async () => {
  const stage = planned({ id: 'mood', file: 'unused.js' });
  const source = {
    ...{ kind: 'task', task: 'text-classification', folder: '/srv/no-such-model', hub: 'owner/model' },
    ...{ subfolder: 'onnx', precision: 'fp32', options: {}, soleWorker: false },
  };
  const modelet = { ...stage.modelet, source: source as unknown as typeof stage.modelet.source };
  const published = { build: BUILD_ID, key: KEY, stage: { ...stage, modelet }, file: null };
  const rules = { secret: null, onlyLocalCode: false, stages: [], workers: null, cpus: null };
  await assert.rejects(installed(published, rules), {
    code: 'config_invalid',
    message: /^the host has no folder \/srv\/no-such-model with the model owner\/model: copy it/,
  });
});
