/** The processes return the memory of large payloads afterwards, and do not keep it for the next ones. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
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
