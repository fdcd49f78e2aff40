/** One bad item in a batch, in real workers: its neighbours get their results, as if it had come alone. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { TABLE, writeModel } from '../../fixtures/onnx.ts';
import { type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

const BATCH = 20;
const BAD = 7;
const batch = { policy: 'oldest', maxBatchSize: BATCH, maxWaitMs: 60_000 } as const;

/** One full batch, of which one item is bad. */
async function askAll(service: TestService, input: (n: number) => unknown): Promise<unknown[]> {
  await service.ready();
  const answers = await Promise.all(Array.from({ length: BATCH }, (_, n) => service.answer(input(n))));
  return answers.map(({ code, value }) => (code === 'ok' ? value : code));
}

const but = (one: string, others: (n: number) => unknown): unknown[] =>
  Array.from({ length: BATCH }, (_, n) => (n === BAD ? one : others(n)));

const JAVASCRIPT = 'return input.map((x) => x.text.toUpperCase());';
const PYTHON = 'def predict(xs, ctx):\n    return [x["text"].upper() for x in xs]\n';
const person = (n: number): unknown => (n === BAD ? {} : { text: `t${n}` });
const served = but('modelet_failed', (n) => `T${n}`);
const failed = Array(BATCH).fill('modelet_failed');

describe('a bad item among twenty', () => {
  for (const isolation of ['process', 'thread'] as const) {
    test(`of JavaScript in a ${isolation}: fails alone with rerun on, and with its batch by default`, async (t) => {
      const stage: StageSpec = { id: 'model', inline: JAVASCRIPT, predict: 'batch', batch, isolation };
      const again = await serve(t, { stages: [{ ...stage, rerun: 'on' }] });
      assert.deepEqual(await askAll(again, person), served);
      assert.deepEqual(await askAll(await serve(t, { stages: [stage] }), person), failed);
    });
  }

  test('of Python: fails alone with rerun on, and with its batch by default', async (t) => {
    const python = join(folderFor(t), 'model.py');
    writeFileSync(python, PYTHON);
    const stage: StageSpec = { id: 'model', python, predict: 'batch', batch };
    assert.deepEqual(await askAll(await serve(t, { stages: [{ ...stage, rerun: 'on' }] }), person), served);
    assert.deepEqual(await askAll(await serve(t, { stages: [stage] }), person), failed);
  });

  test('of an ONNX model: fails alone by default, and with its batch with rerun off', async (t) => {
    const stage: StageSpec = { id: 'table', onnx: writeModel(folderFor(t), 'table', TABLE), batch };
    const index = (n: number): number => (n === BAD ? 99 : n % 3);
    const alone = await askAll(await serve(t, { stages: [stage] }), index);
    assert.deepEqual(
      alone,
      but('invalid_input', (n) => (n % 3) * 10 + 10),
    );
    const off = await askAll(await serve(t, { stages: [{ ...stage, rerun: 'off' }] }), index);
    assert.deepEqual(off, failed);
  });
});
