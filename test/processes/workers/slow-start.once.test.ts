/** Starts that take long: signs of life keep them going, and those of a silent one get more time at each try. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { PATIENCE_MS, until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { serve } from '../../fixtures/service.ts';

describe('a slow start', () => {
  const PRINTS = `
import sys, time
class Model:
    def setup(self):
        for step in range(30):
            WORDS
            time.sleep(self.pause)
    def __init__(self, init, ctx): self.ctx, self.pause = ctx, init.get("pause", 0)
    def predict(self, value): return value
`;
  const ways: Readonly<Record<string, string>> = {
    'lines on stdout': 'print("loading", step)',
    'a bar on stderr without new lines': 'print(f"\\r{step}", end="", file=sys.stderr, flush=True)',
    'ctx.progress': 'self.ctx.progress(step / 30)',
    'bytes of a download': 'open("/dev/null", "wb").write(bytes(200_000))',
    'memory that grows':
      'self.ctx.__class__.kept = getattr(self.ctx.__class__, "kept", []) + [bytearray(b"x" * 500_000)]',
  };
  for (const [name, words] of Object.entries(ways)) {
    test(`goes on for longer than its limit with ${name}`, { skip: WITHOUT_PYTHON }, async (t) => {
      const python = join(folderFor(t), 'model.py');
      writeFileSync(python, PRINTS.replace('WORDS', words));
      // Python alone may take a while on a slow machine; its first sign comes afterwards.
      const startedAt = performance.now();
      await (await serve(t, { stages: [{ id: 'quick', python }] })).ready();
      const startTimeoutMs = Math.max(1500, Math.round(4 * (performance.now() - startedAt)));
      const init = { pause: (2 * startTimeoutMs) / 30 / 1000 };
      const service = await serve(t, { stages: [{ id: 'model', python, init, startTimeoutMs }] });
      await service.ready(2 * startTimeoutMs + PATIENCE_MS);
      assert.equal(await service.value(7), 7);
      assert.equal(service.stage('model').workers[0]?.restarts, 0);
    });
  }

  test('is shown with its progress, and a silent one with its time and the setting', async (t) => {
    const folder = folderFor(t);
    const setup = `
      const { existsSync } = await import('node:fs');
      ctx.progress(0.42);
      while (!existsSync(${JSON.stringify(join(folder, 'open'))})) await new Promise((done) => setTimeout(done, 5));`;
    const service = await serve(t, {
      stages: [{ id: 'model', inline: { setup, code: 'return input;' }, startTimeoutMs: 800 }],
    });
    await until('it is shown', () => service.stage('model').why?.startsWith('starting: worker 0 loads: 42 %'));
    const failed = await until('it has failed', () => service.stage('model').workers[0]?.error);
    assert.match(
      failed,
      /^was not ready within 800 ms \(Start timeout\): [\d.]+ m?s so far.*; the next try has 1\.6 s$/,
    );
    writeFileSync(join(folder, 'open'), '');
    await service.ready();
    assert.equal(await service.value(7), 7);
  });
});
