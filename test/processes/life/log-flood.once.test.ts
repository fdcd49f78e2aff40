/** A modelet that prints without end: the log stays readable, and requests are served. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { LINES_PER_SECOND } from '../../../src/observe/log/line-limit.ts';
import { LONGEST_LINE } from '../../../src/process/lines.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type StageSpec, serve } from '../../fixtures/service.ts';

const LINES = 20_000;

const PRINTS = {
  'console.log': `for (let n = 0; n < ${LINES}; n += 1) console.log('a line of many');`,
  'console.error': `for (let n = 0; n < ${LINES}; n += 1) console.error('a line of many');`,
  'node.warn': `for (let n = 0; n < ${LINES}; n += 1) node.warn('a line of many');`,
} as const;

describe('a flood of lines', () => {
  for (const isolation of ISOLATIONS) {
    for (const [name, code] of Object.entries(PRINTS)) {
      test(`by ${name}: the log has some each second and counts the rest (${isolation})`, async (t) => {
        const service = await serve(t, { stages: [{ id: 'prints', inline: `${code} return 1;`, isolation }] });
        await service.ready();
        const start = performance.now();
        assert.equal(await service.value(1), 1);
        const hidden = (): number =>
          service.logs.reduce((sum, { message }) => sum + Number(/^(\d+) more lines/.exec(message)?.[1] ?? 0), 0);
        const shown = (): number => service.logs.filter(({ message }) => message === 'a line of many').length;
        await until('each line is shown or counted', () => shown() + hidden() === LINES);
        const seconds = Math.ceil((performance.now() - start) / 1000) + 1;
        assert.ok(shown() <= seconds * LINES_PER_SECOND, `${shown()} lines in ${seconds} s`);
        assert.equal(service.logs.find(({ message }) => /more lines/.test(message))?.stage, 'prints');
      });
    }
  }

  test('the log truncates endless lines', async (t) => {
    const code = `process.stdout.write('x'.repeat(1 << 20)); console.log(''); node.warn('y'.repeat(1 << 20)); return 1;`;
    const service = await serve(t, { stages: [{ id: 'prints', inline: code }] });
    await service.value(1);
    const long = await until('both have come', () => {
      const found = service.logs.filter(({ message }) => /^(x+|y+)\.\.\.$/.test(message));
      return found.length === 2 && found;
    });
    for (const { message } of long) assert.equal(message.length, LONGEST_LINE + 3);
  });
});

describe('the output of a modelet about an error', () => {
  const JAVASCRIPT = `
    function inner() { throw new Error('bad weights'); }
    try { inner(); } catch (error) { console.error(error); }
    console.error('afterwards');
    return 1;`;
  const PYTHON = `
import sys, traceback

def predict(value):
    try:
        inner()
    except ValueError:
        traceback.print_exc()
    print("afterwards", file=sys.stderr)
    return 1

def inner():
    raise ValueError("bad weights")
`;

  /** Returns the lines that a stage wrote to stderr after one request. */
  async function complaints(t: TestContext, stage: Partial<StageSpec>): Promise<string[]> {
    const service = await serve(t, { stages: [{ id: 'says', ...stage }] });
    assert.equal(await service.value(1), 1);
    await until('all has come', () => service.logs.some(({ message }) => message === 'afterwards'));
    const written = service.logs.filter(({ level, worker }) => level === 'info' && worker !== undefined);
    return written.map(({ message }) => message).filter((message) => !message.startsWith('ready, '));
  }

  for (const isolation of ISOLATIONS) {
    test(`the stack of JavaScript is one message of the log (${isolation})`, async (t) => {
      const [stack = '', ...others] = await complaints(t, { inline: JAVASCRIPT, isolation });
      assert.match(stack, /^Error: bad weights\n {4}at inner \(.*\n {4}at /);
      assert.deepEqual(others, ['afterwards']);
    });
  }

  test('the traceback of Python is one message of the log', { skip: WITHOUT_PYTHON }, async (t) => {
    const python = join(folderFor(t), 'says.py');
    writeFileSync(python, PYTHON);
    const [traceback = '', ...others] = await complaints(t, { python });
    assert.match(traceback, /^Traceback \(most recent call last\):\n {2}File .*\nValueError: bad weights$/s);
    assert.deepEqual(others, ['afterwards']);
  });

  const DYING: readonly [kind: string, skip: string | false, stage: (folder: string) => Partial<StageSpec>][] = [
    ...ISOLATIONS.map((isolation): (typeof DYING)[number] => {
      const inline = { setup: 'console.error("loading");', code: 'console.error("no weights"); process.exit(7);' };
      return [isolation, false, () => ({ inline, isolation })];
    }),
    [
      'Python',
      WITHOUT_PYTHON,
      (folder) => {
        const python = join(folder, 'dies.py');
        writeFileSync(
          python,
          'import sys\nprint("loading", file=sys.stderr)\ndef predict(value):\n    print("no weights", file=sys.stderr)\n    sys.exit(7)\n',
        );
        return { python };
      },
    ],
  ];
  for (const [kind, skip, stage] of DYING) {
    test(`right before the end of a worker is part of the error (${kind})`, { skip }, async (t) => {
      const service = await serve(t, { stages: [{ id: 'dies', ...stage(folderFor(t)) }] });
      const levels = (pattern: RegExp): string[] =>
        service.logs.filter(({ message }) => pattern.test(message)).map(({ level }) => level);
      const { code, error } = await service.answer('now');
      assert.equal(code, 'worker_lost');
      assert.match(error?.message ?? '', /no weights/);
      const all = (): boolean => levels(/^loading$/).length > 0 && levels(/no weights/).length === 2;
      await until('its output and its death are in the log', all);
      assert.ok(levels(/^loading$/).every((level) => level === 'info'));
      // Where more than MOMENT_MS passes before the process ends, the line is output like any other.
      const [line = '', death] = levels(/no weights/);
      assert.deepEqual([['info', 'warn'].includes(line), death], [true, 'error']);
    });
  }
});
