/** A modelet that prints without end: the log stays readable, and requests are served. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LONGEST_LINE } from '../../src/lifecycle/lines.ts';
import { LINES_PER_SECOND } from '../../src/observe/line-limit.ts';
import { ISOLATIONS } from '../fixtures/isolations.ts';
import { until } from '../fixtures/processes.ts';
import { serve } from '../fixtures/service.ts';

const LINES = 20_000;

const PRINTS = {
  'console.log': `for (let n = 0; n < ${LINES}; n += 1) console.log('a line of many');`,
  'console.error': `for (let n = 0; n < ${LINES}; n += 1) console.error('a line of many');`,
  'node.warn': `for (let n = 0; n < ${LINES}; n += 1) node.warn('a line of many');`,
} as const;

describe('a flood of lines', () => {
  for (const isolation of ISOLATIONS) {
    for (const [name, code] of Object.entries(PRINTS)) {
      test(`by ${name}: some are shown each second, the rest is counted (${isolation})`, async (t) => {
        const service = await serve(t, { stages: [{ id: 'prints', inline: `${code} return 1;`, isolation }] });
        await service.ready();
        const start = performance.now();
        assert.equal(await service.value(1), 1);
        const hidden = (): number =>
          service.logs.reduce((sum, { message }) => sum + Number(/^(\d+) more lines/.exec(message)?.[1] ?? 0), 0);
        const shown = (): number => service.logs.filter(({ message }) => message === 'a line of many').length;
        await until(() => shown() + hidden() === LINES, 'each line is shown or counted');
        const seconds = Math.ceil((performance.now() - start) / 1000) + 1;
        assert.ok(shown() <= seconds * LINES_PER_SECOND, `${shown()} lines in ${seconds} s`);
        assert.equal(service.logs.find(({ message }) => /more lines/.test(message))?.stage, 'prints');
      });
    }
  }

  test('lines without end are cut', async (t) => {
    const code = `process.stdout.write('x'.repeat(1 << 20)); console.log(''); node.warn('y'.repeat(1 << 20)); return 1;`;
    const service = await serve(t, { stages: [{ id: 'prints', inline: code }] });
    await service.value(1);
    const long = await until(() => {
      const found = service.logs.filter(({ message }) => /^(x+|y+)\.\.\.$/.test(message));
      return found.length === 2 && found;
    }, 'both have come');
    for (const { message } of long) assert.equal(message.length, LONGEST_LINE + 3);
  });
});
