/** JSON text that only the worker parses: in JavaScript and in Python, with neighbours in the batch that are no JSON. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type StageSpec, serve } from '../../fixtures/service.ts';

const ECHO = { js: 'export default (inputs) => inputs;', py: 'def predict(inputs): return inputs\n' };

function stageIn(t: TestContext, language: 'js' | 'py'): StageSpec {
  const path = join(folderFor(t), language === 'js' ? 'echo.mjs' : 'echo.py');
  writeFileSync(path, ECHO[language]);
  const source = language === 'js' ? { file: path } : { python: path };
  return {
    id: 'echo',
    ...source,
    predict: 'batch',
    batch: { policy: 'oldest', maxBatchSize: SENT.length, maxWaitMs: 60_000 },
  };
}

const SENT: readonly (readonly [text: string | Buffer, value: unknown])[] = [
  ['{"a": [1, 2.5, null, true]}', { a: [1, 2.5, null, true] }],
  ['\ufeff[]', []],
  ['{"a"', 'bad_request'],
  ['[NaN]', 'bad_request'],
  ['"\\ud83d\\ude00"', '\u{1f600}'],
  ['{"a": 1, "a": 2}', { a: 2 }],
  ['', 'bad_request'],
  ['{"a": 1e999}', 'bad_request'],
  ['{"a": [1, -1E+400]}', 'bad_request'],
  [`{"a": ${'9'.repeat(400)}.5}`, 'bad_request'],
  ['["1e999", 1.5e308, 1e-999, -0.0]', ['1e999', 1.5e308, 0, -0]],
  [Buffer.from([0x22, 0xff, 0x22]), 'bad_request'],
  [Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), 'bad_request'],
  [`${'['.repeat(100_000)}${']'.repeat(100_000)}`, 'invalid_input'],
];

/** Integers beyond 2^53 - 1: what Python gets. JavaScript's own parser rounds them, see docs/reference/values.md. */
const LARGE: readonly (readonly [text: string, value: unknown])[] = [
  ['9007199254740993', 9007199254740993n],
  ['{"a": 9007199254740993, "b":-9007199254740993}', { a: 9007199254740993n, b: -9007199254740993n }],
  ['[ 18446744073709551617,9007199254740991 ]', [18446744073709551617n, 9007199254740991]],
];

for (const language of ['js', 'py'] as const) {
  const skip = language === 'py' && WITHOUT_PYTHON;
  test(`text that is not JSON fails its item alone, in a batch in ${language}`, { skip }, async (t) => {
    const service = await serve(t, { stages: [stageIn(t, language)] });
    const asked = SENT.map(([text]) => service.ask(text, { asText: true }));
    const answers = await Promise.all(asked.map(({ answer }) => answer));
    for (const [index, { code, value, error, timings }] of answers.entries()) {
      const expected = SENT[index]?.[1];
      assert.deepEqual(code === 'ok' ? value : code, expected, error?.message);
      assert.equal(timings[0]?.batchSize, SENT.length);
      if (code === 'bad_request') assert.match(error?.message ?? '', /^the body is not valid JSON: ./);
    }
  });

  test(`a large integer is as exact as ${language} can`, { skip }, async (t) => {
    const service = await serve(t, { stages: [{ ...stageIn(t, language), batch: {} }] });
    for (const [text, value] of LARGE) {
      const { code, value: got } = await service.ask(text, { asText: true }).answer;
      assert.deepEqual([code, got], ['ok', language === 'py' ? value : JSON.parse(text)], text);
    }
  });
}
