/** Tables in CSV, in pieces of every length: the pieces never change the rows. And the files of rows: each is closed. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import type { NodeAPI } from 'node-red';
import { isModeletError } from '../../../src/core/errors.ts';
import { csvRows, LONGEST_ROW } from '../../../src/http/rows/csv.ts';
import { feedItems } from '../../../src/node-red/feed/feed-source.ts';
import { until } from '../../fixtures/polling.ts';

async function read(text: string, pieces = [text.length]): Promise<unknown[]> {
  const chunks: string[] = [];
  let at = 0;
  for (const length of [...pieces, text.length]) {
    chunks.push(text.slice(at, at + length));
    at += length;
  }
  async function* input(): AsyncGenerator<string> {
    yield* chunks;
  }
  const rows: unknown[] = [];
  for await (const row of csvRows(input())) rows.push(isModeletError(row) ? row.message : row);
  return rows;
}

const quoted = (value: string): string => `"${value.replaceAll('"', '""')}"`;

test('quoted values come back as they were, with any delimiter, end of line and pieces', async () => {
  const value = fc.string({ unit: fc.constantFrom('a', ' ', '"', ',', ';', '\t', '|', '\n', '\r', 'é', '1') });
  const table = fc
    .integer({ min: 1, max: 4 })
    .chain((columns) =>
      fc.array(fc.array(value, { minLength: columns, maxLength: columns }), { minLength: 1, maxLength: 5 }),
    );
  const ends = fc.constantFrom('\n', '\r\n', '\r', '\n\n');
  const delimiters = fc.constantFrom(',', ';', '\t', '|');
  await fc.assert(
    fc.asyncProperty(
      table,
      delimiters,
      ends,
      fc.array(fc.nat(9), { maxLength: 40 }),
      async (rows, delimiter, end, pieces) => {
        const names = (rows[0] ?? []).map((_, index) => `n${index}`);
        const text = [names, ...rows].map((row) => row.map(quoted).join(delimiter)).join(end);
        const wanted = rows.map((row) => Object.fromEntries(row.map((cell, index) => [`n${index}`, cell])));
        assert.deepEqual(await read(text, pieces), wanted);
        assert.deepEqual(await read(text + end, pieces), wanted);
      },
    ),
  );
});

for (const [what, text, rows] of [
  ['no row', 'a,b\n', []],
  ['nothing at all', '', []],
  ['one column', 'a\n1\n\n x \n', [{ a: 1 }, { a: ' x ' }]],
  ['columns without names, or with equal ones', ',a,a,a_2\n1,2,3,4', [{ 'column 1': 1, a: 2, a_2: 3, a_2_2: 4 }]],
  ['the name of a prototype', '__proto__,b\n1,2', [JSON.parse('{"__proto__": 1, "b": 2}')]],
  [
    'numbers',
    'a,b,c,d\n1.50,-2,.5,1e3\n1_0,0x1,Infinity,1e999',
    [
      { a: 1.5, b: -2, c: 0.5, d: 1000 },
      { a: '1_0', b: '0x1', c: 'Infinity', d: '1e999' },
    ],
  ],
  ['quotes inside of values', 'a,b\n5" disk,"x"y', [{ a: '5" disk', b: 'xy' }]],
  ['a row of another length', 'a,b\n1,2,3\n4,5', ['line 2: 3 values for 2 columns', { a: 4, b: 5 }]],
  ['a row with one value', 'a,b\n1', ['line 2: 1 value for 2 columns']],
] as const) {
  test(`a table with ${what}`, async () => assert.deepEqual(await read(text), rows));
}

test('a row that does not end is refused before it takes the memory', async () => {
  async function* endless(): AsyncGenerator<string> {
    yield 'a,b\n1,"';
    for (;;) yield 'x'.repeat(1 << 20);
  }
  await assert.rejects(
    async () => {
      for await (const _ of csvRows(endless()));
    },
    { code: 'bad_request', message: `line 2: a row has more than ${LONGEST_ROW} characters` },
  );
});

test('many columns of one name are named in time', async () => {
  const [row] = await read(`${'a,'.repeat(100_000)}a\n${'1,'.repeat(100_000)}1`);
  assert.equal(Object.keys(row as object).length, 100_001);
});

test('a file that is not read to its end does not stay open', { skip: process.platform !== 'linux' }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-test-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const filename = join(folder, 'rows');
  writeFileSync(filename, '{"a":1}\n'.repeat(100_000));
  const areOpen = (): number =>
    readdirSync('/proc/self/fd').filter((fd) => {
      const path = `/proc/self/fd/${fd}`;
      return existsSync(path) && readlinkSync(path) === filename;
    }).length;
  for (const from of ['lines', 'jsonl', 'csv'] as const) {
    for await (const { last } of feedItems({ settings: {} } as NodeAPI, { filename }, from)) {
      assert.deepEqual([last, areOpen()], [false, 1]);
      break;
    }
    await until('it is closed', () => areOpen() === 0);
  }
});
