/**
 * Inline code in a real worker: the tabs On Start, Predict and On Stop, and the habits of the function node.
 * Shows: worker inline.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { PATIENCE_MS, until } from '../../fixtures/polling.ts';
import { within } from '../../fixtures/processes.ts';
import { type PlanSpec, serve, type TestService } from '../../fixtures/service.ts';

function logged(service: TestService, message: string): Promise<{ level: string; stage?: string; worker?: number }> {
  return until(`"${message}" is in the log`, () => service.logs.find((record) => record.message.includes(message)));
}

describe('the tabs', () => {
  test('On Start returns the state of each worker, and gets init and ctx', async (t) => {
    const service = await serve(t, {
      stages: [
        {
          id: 'count',
          init: { step: 10 },
          workers: 2,
          inline: {
            setup: 'await null; return { total: init.step * 100, worker: ctx.worker, stage: ctx.stage };',
            code: 'state.total += init.step * input; return { ...state, pid: process.pid };',
          },
        },
      ],
    });
    await service.ready();
    const totals = new Map<number, number>();
    for (let n = 0; n < 10; n += 1) {
      const result = await service.value<{ total: number; worker: number; stage: string; pid: number }>(1);
      const total = (totals.get(result.pid) ?? 1000) + 10;
      totals.set(result.pid, total);
      assert.deepEqual(result, { total, worker: result.worker, stage: 'count', pid: result.pid });
    }
  });

  test('On Stop runs with the state on close, on redefinition and on removal, once for each worker', async (t) => {
    const folder = folderFor(t);
    const file = join(folder, 'stopped');
    const plan = (version: number): PlanSpec => ({
      stages: [
        {
          id: 'stops',
          workers: 2,
          inline: {
            setup: 'return process.pid',
            code: 'return state',
            teardown: `await null; require('fs').appendFileSync(${JSON.stringify(file)}, state + ' ${version}\\n');`,
          },
        },
      ],
    });
    const stopped = (): string[] => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').toSorted() : []);
    const service = await serve(t, plan(1));
    const first = (await service.ready())['stops'] ?? [];
    service.apply(plan(2));
    await until('the replaced workers have stopped', () => stopped().length === 2);
    assert.deepEqual(stopped(), first.map((pid) => `${pid} 1`).toSorted());
    await until('new workers are in place', () => service.pids('stops').every((pid) => !first.includes(pid)));
    await service.ready();
    service.apply({ stages: [] });
    await until('the removed workers have stopped', () => stopped().length === 4);
    service.apply(plan(3));
    const ready = (): number => service.logs.filter(({ message }) => message.startsWith('ready, pid')).length;
    await until('the third generation is ready', () => ready() === 6);
    await within(service.service.close(true), 'it closes');
    assert.equal(stopped().filter((line) => line.endsWith(' 3')).length, 2);
    assert.equal(stopped().length, 6);
  });

  test('a teardown that throws or never ends does not prevent the runtime from closing', async (t) => {
    const closing = async (teardown: string, limitMs: number): Promise<TestService> => {
      const service = await serve(t, { stages: [{ id: 'ends', inline: { code: 'return 1', teardown } }] });
      assert.equal(await service.value(0), 1);
      await within(service.service.close(false, limitMs), 'it closes');
      return service;
    };
    await closing('await new Promise(() => setInterval(() => {}, 1000))', 500);
    const thrown = await closing('throw new Error("stuck at the end")', PATIENCE_MS);
    await logged(thrown, 'stuck at the end');
  });
});

describe('the habits of the function node', () => {
  test('msg has payload, topic and _msgid, and a returned msg means its payload', async (t) => {
    const inline = `
      if (msg.topic === 'keys') return Object.keys(msg).sort();
      msg.payload = [msg.payload === input, msg.topic, msg._msgid];
      return msg;`;
    const service = await serve(t, { stages: [{ id: 'habits', inline }] });
    const meta = { topic: { any: ['thing'] }, _msgid: 'abc123' };
    assert.deepEqual(await service.value({ a: 1 }, { meta }), [true, { any: ['thing'] }, 'abc123']);
    assert.deepEqual(await service.value(1), [true, undefined, undefined]);
    assert.deepEqual(await service.value(1, { meta: { topic: 'keys' } }), ['payload', 'topic']);
  });

  test('in a later stage of a route, too', async (t) => {
    const service = await serve(t, {
      stages: [
        { id: 'first', inline: 'return { payload: input + 1 };' },
        { id: 'second', inline: 'return [msg.payload, msg.topic];', batch: { maxBatchSize: 5 } },
      ],
    });
    const topics = ['a', 'b', 'c'];
    const values = await Promise.all(topics.map((topic, n) => service.value(n, { meta: { topic } })));
    assert.deepEqual(
      values,
      topics.map((topic, n) => [n + 1, topic]),
    );
  });

  test('in batches input is an array of inputs, and the result an array', async (t) => {
    const service = await serve(t, {
      stages: [
        {
          id: 'batch',
          predict: 'batch',
          inline: 'return input.map((x) => x * input.length);',
          batch: { maxBatchSize: 5 },
        },
      ],
    });
    assert.deepEqual(await Promise.all([1, 2, 3].map((n) => service.value(n))), [3, 6, 9]);
  });

  test('require looks modules up from the folder given, import() works', async (t) => {
    const folder = folderFor(t);
    for (const [name, text] of [
      ['only-there', 'module.exports = { from: "the folder" };'],
      ['only-there-esm', 'export const from = "an ES module";'],
    ] as const) {
      mkdirSync(join(folder, 'node_modules', name), { recursive: true });
      const type = name.endsWith('esm') ? 'module' : 'commonjs';
      writeFileSync(
        join(folder, 'node_modules', name, 'package.json'),
        JSON.stringify({ name, type, main: 'index.js' }),
      );
      writeFileSync(join(folder, 'node_modules', name, 'index.js'), text);
    }
    writeFileSync(join(folder, 'local.js'), 'module.exports = "a file beside";');
    const inline = {
      setup: 'return [require("only-there").from, require("./local.js"), (await import("node:path")).sep];',
      code: 'try { require("not-there") } catch (error) { return [...state, error.code] }',
    };
    const service = await serve(t, { stages: [{ id: 'requires', inline, requireFrom: folder }] });
    assert.deepEqual(await service.value(0), ['the folder', 'a file beside', '/', 'MODULE_NOT_FOUND']);
  });

  test('env.get reads the environment of the stage, node.log and console.log write to the log', async (t) => {
    const service = await serve(t, {
      stages: [
        {
          id: 'talks',
          env: { GREETING: 'hello' },
          inline: `node.warn('warned ' + input); node.error('failed ' + input); node.log('told ' + input);
                   console.log('printed ' + input); console.error('complained ' + input); ctx.log.info({ plain: input });
                   return [env.get('GREETING'), env.get('NO_SUCH_THING'), node.name];`,
        },
      ],
    });
    assert.deepEqual(await service.value('there'), ['hello', undefined, 'talks']);
    const levels = {
      'warned there': 'warn',
      'failed there': 'error',
      'told there': 'info',
      'printed there': 'info',
      'complained there': 'info',
      "{ plain: 'there' }": 'info',
    };
    for (const [message, level] of Object.entries(levels)) {
      const record = await logged(service, message);
      assert.deepEqual([record.level, record.stage, record.worker], [level, 'talks', 0], message);
    }
  });

  test('an API that lives in Node-RED is explained, not undefined', async (t) => {
    const service = await serve(t, { stages: [{ id: 'missing', inline: 'return eval(input);' }] });
    for (const code of [
      'flow.get("a")',
      'global.get("a")',
      'context.set("a", 1)',
      'node.send(msg)',
      'node.status({})',
      'RED.util',
    ]) {
      const { code: found, error } = await service.answer(code);
      assert.equal(found, 'modelet_failed');
      assert.match(error?.message ?? '', /does not exist in a worker: /, code);
    }
  });

  test('an error names the tab and the line that the user sees', async (t) => {
    const service = await serve(t, {
      stages: [{ id: 'lines', inline: '// one\n// two\nthrow new Error("on the third");' }],
    });
    const { error } = await service.answer(0);
    assert.match(error?.stack ?? '', /lines: Predict:3/);
  });
});
