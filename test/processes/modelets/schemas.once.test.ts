/** Schemas and examples in real workers, processes and threads: who fails of a batch, and who does not start. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { until } from '../../fixtures/polling.ts';
import { type StageSpec, serve } from '../../fixtures/service.ts';

function file(t: TestContext, code: string): string {
  const path = join(folderFor(t), 'model.mjs');
  writeFileSync(path, code);
  return path;
}

for (const isolation of ISOLATIONS) {
  describe(`in a ${isolation}`, () => {
    test('a class has its own schemas, and the schema of the stage takes precedence', async (t) => {
      const code = `export default class {
        static inputSchema = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } };
        static outputSchema = { type: 'number', maximum: 100 };
        predict({ n }) { return n * 10; }
      }`;
      const stage: StageSpec = { id: 'model', file: file(t, code), isolation, batch: { maxBatchSize: 8 } };
      const service = await serve(t, { stages: [stage] });
      await service.ready();
      const answers = await Promise.all([{ n: 1 }, { n: 'x' }, { n: 11 }, {}, { n: 2 }].map((x) => service.answer(x)));
      assert.deepEqual(
        answers.map(({ code: outcome, value, error }) => (error ? `${outcome}: ${error.message}` : value)),
        [
          10,
          'invalid_input: input/n must be integer',
          'modelet_failed: output must be <= 100',
          "invalid_input: input must have required property 'n'",
          20,
        ],
      );
      assert.deepEqual(answers[1]?.error?.details, [{ path: '/n', message: 'must be integer', keyword: 'type' }]);
      service.apply({ stages: [{ ...stage, outputSchema: { type: 'number' } }] });
      await until('the new schema holds', async () => (await service.answer({ n: 11 })).value === 110);
    });

    test('the schemas of a stage apply to its inline code', async (t) => {
      const inputSchema = { type: 'array', items: { type: 'number' } };
      const service = await serve(t, {
        stages: [{ id: 'sum', inline: 'return input.reduce((a, b) => a + b, 0);', isolation, inputSchema }],
      });
      assert.equal(await service.value([1, 2]), 3);
      assert.equal((await service.answer('text')).code, 'invalid_input');
    });

    test('a worker runs its examples before it is ready: each alone, then a full batch of them', async (t) => {
      const code = `const seen = [];
      export default class {
        static batch = true;
        static examples = ['a', 'b', 'c'];
        predict(all) { seen.push(all.join('')); return all.map(() => seen); }
      }`;
      const stage: StageSpec = { id: 'model', file: file(t, code), isolation, batch: { maxBatchSize: 5 } };
      const service = await serve(t, { stages: [stage] });
      assert.deepEqual(await service.value('x'), ['a', 'b', 'c', 'abcab', 'x']);
      const { items, batches } = await until('the request is counted', () =>
        service.stage('model').items > 0 ? service.stage('model') : null,
      );
      assert.deepEqual([items, batches], [1, 1]);
    });

    const BROKEN: readonly (readonly [string, string, RegExp])[] = [
      [
        'whose example throws',
        `export default class { static examples = [1, 0]; predict(x) { if (!x) throw new Error('no weights'); return x; } }`,
        /the warm-up failed at example 1: no weights/,
      ],
      [
        'whose example breaks its schema',
        `export default class { static examples = ['x']; static inputSchema = { type: 'number' }; predict(x) { return x; } }`,
        /the warm-up failed at example 0: input must be number/,
      ],
      [
        'that cannot take a batch',
        `export default class { static batch = true; static examples = [1]; predict(x) { return x.slice(0, 1); } }`,
        /the warm-up failed at a batch of 4 examples: predict returned 1 result for 4 inputs/,
      ],
      [
        'whose schema is not a schema',
        `export default class { static inputSchema = { type: 'nummer' }; predict(x) { return x; } }`,
        /inputSchema cannot be used: schema is invalid/,
      ],
      [
        'whose schema is text',
        `const f = (x) => x; f.outputSchema = 'number'; export default f;`,
        /outputSchema in .*/,
      ],
    ];
    for (const [name, code, message] of BROKEN) {
      test(`a worker ${name} does not become ready, and says why`, async (t) => {
        const stage: StageSpec = { id: 'model', file: file(t, code), isolation, batch: { maxBatchSize: 4 } };
        const service = await serve(t, { stages: [stage] });
        const error = await until('the error is shown', () => service.stage('model').workers[0]?.error);
        assert.match(error, message);
        assert.equal((await service.answer(1)).code, 'stage_unavailable');
      });
    }

    test('the start timeout ends a warm-up that hangs', async (t) => {
      const code = `export default class { static examples = [1]; predict() { return new Promise(() => {}); } }`;
      const stage: StageSpec = { id: 'model', file: file(t, code), isolation, startTimeoutMs: 500 };
      const service = await serve(t, { stages: [stage] });
      const error = await until('the error is shown', () => service.stage('model').workers[0]?.error);
      assert.match(error, /500 ms/);
    });
  });
}
