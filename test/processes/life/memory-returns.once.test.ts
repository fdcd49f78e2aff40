/** The processes return the memory of large payloads and of pictures, and do not keep it for the next ones. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../../fixtures/known-models.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { type StageSpec, serve } from '../../fixtures/service.ts';

const AT_ONCE = 4;
const BYTES = 60_000_000;
/** How many times what a process had before it may have afterwards; during the load it is five times and more. */
const MOST_TIMES = 2.5;

function residentBytes(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

const WORKERS: readonly { name: string; stage: Partial<StageSpec>; skip?: string | false }[] = [
  ...ISOLATIONS.map((isolation) => ({ name: isolation, stage: { file: 'echo', isolation } })),
  { name: 'Python', stage: { python: 'echo' }, skip: WITHOUT_PYTHON },
];

for (const { name, stage, skip = false } of WORKERS) {
  describe(`after large payloads (${name})`, { skip }, () => {
    test('the engine and the worker return their memory', async (t) => {
      const service = await serve(t, { stages: [{ id: 'echo', ...stage }] });
      await service.ready();
      await service.value('warm');
      const pids = [...new Set([service.enginePid, ...service.pids('echo')])];
      const before = pids.map(residentBytes);
      const text = 'x'.repeat(BYTES);
      const answers = await Promise.all(Array.from({ length: AT_ONCE }, () => service.value<string>(text)));
      for (const answer of answers) assert.equal(answer.length, BYTES);
      for (const [index, pid] of pids.entries()) {
        const most = (before[index] as number) * MOST_TIMES;
        await until(`process ${index} has no more than ${most} bytes`, () => residentBytes(pid) < most);
      }
    });
  });
}

/** Of the decoder of pictures, all that this test uses. */
type OpenSharp = (pixels: Uint8Array, options: object) => { jpeg(): { toBuffer(): Promise<Buffer> } };

const PICTURES = 5000;
/** Until then the heap and the buffers of the decoder still find their size. */
const WARM = 2000;
/** How many pictures the first and the last reading take. */
const WINDOW = 500;
const PICTURES_AT_ONCE = 16;
/** How many pictures pass between two readings; a collection of garbage comes earlier or later, so one reading says little. */
const READ_EVERY = 50;
/** How many times as large the smallest reading of the last pictures may be. A leak of 25 KB for each picture is more. */
const MOST_GROWTH = 1.25;

test('5,000 pictures of many sizes in batches leave the worker of a known model as large as 2,500 did', async (t) => {
  const sharp = createRequire(join(repositoryRoot, 'package.json'))('sharp') as OpenSharp;
  const files = await Promise.all(
    Array.from({ length: 20 }, (_, n) => {
      const [width, height] = [120 + 11 * n, 400 - 13 * n];
      const data = Uint8Array.from({ length: width * height * 3 }, (_byte, at) => (at * (n + 3)) % 251);
      return sharp(data, { raw: { width, height, channels: 3 } })
        .jpeg()
        .toBuffer();
    }),
  );
  const folder = writeKnownModel(join(folderFor(t), 'model'), KNOWN['object-detection'] as KnownModel);
  const service = await serve(t, {
    stages: [{ id: 'model', task: { name: 'object-detection', folder }, batch: { maxBatchSize: 8 } }],
  });
  const { model: [worker = 0] = [] } = await service.ready();
  let sent = 0;
  const send = async (count: number): Promise<void> => {
    while (sent < count) {
      sent += 1;
      assert.equal((await service.answer(files[sent % files.length])).code, 'ok');
    }
  };
  /** The smallest size of the worker while the pictures up to this one pass. */
  const smallest = async (count: number): Promise<number> => {
    let bytes = Number.POSITIVE_INFINITY;
    while (sent < count) {
      const next = sent + READ_EVERY;
      await Promise.all(Array.from({ length: PICTURES_AT_ONCE }, () => send(next)));
      bytes = Math.min(bytes, residentBytes(worker));
    }
    return bytes;
  };
  await smallest(WARM);
  const early = await smallest(WARM + WINDOW);
  await smallest(PICTURES - WINDOW);
  const late = await smallest(PICTURES);
  t.diagnostic(`${Math.round(early / 1e6)} MB, then ${Math.round(late / 1e6)} MB`);
  assert.ok(late < early * MOST_GROWTH, `${early} bytes after half, ${late} at the end`);
});
