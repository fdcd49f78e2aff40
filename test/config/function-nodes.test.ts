/** A function node becomes a stage: its code as it is, and by line and expression what a worker does not have. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type FlowVariable,
  type FunctionProperties,
  functionOfStage,
  stageOfFunction,
} from '../../src/node-red/functions/conversion.ts';
import type { Obstacle } from '../../src/node-red/functions/function-code.ts';
import { FUNCTION_CORPUS } from '../fixtures/function-corpus.ts';

const EMPTY: FunctionProperties = { func: '', initialize: '', finalize: '', outputs: 1, timeout: 0, libs: [] };

function told(obstacles: readonly Obstacle[]): string[] {
  return obstacles.map(({ tab, line, reason, name }) => `${tab} ${line} ${reason} ${name}`);
}

/** Returns the obstacles in code, without those of its end. */
function found(code: string): string[] {
  const { obstacles } = stageOfFunction({ ...EMPTY, func: `${code}\nreturn msg;` }, []);
  return obstacles.map(({ reason, name }) => `${reason} ${name}`);
}

describe('a function node as a stage', () => {
  for (const { name, func, initialize = '', outputs = 1, libs = [], obstacles } of FUNCTION_CORPUS) {
    test(name, () => {
      const converted = stageOfFunction({ ...EMPTY, func, initialize, outputs, libs }, []);
      assert.deepEqual(told(converted.obstacles), obstacles);
      assert.deepEqual([converted.properties.code, converted.properties.libs], [func, libs]);
    });
  }

  test('keeps On Start, On Stop and the time limit', () => {
    const { properties } = stageOfFunction(
      { ...EMPTY, func: 'return msg;', initialize: 'node.log("on")', finalize: 'node.log("off")', timeout: 1.5 },
      [],
    );
    const { source, setup, teardown, runTimeoutMs } = properties;
    assert.deepEqual([source, setup, teardown, runTimeoutMs], ['inline', 'node.log("on")', 'node.log("off")', 1500]);
  });

  test('names the line of a syntax error', () => {
    const { obstacles } = stageOfFunction({ ...EMPTY, func: 'return msg;', finalize: 'const a = 1;\nconst = 2;' }, []);
    assert.deepEqual(
      obstacles.map(({ tab, line, reason }) => [tab, line, reason]),
      [['teardown', 2, 'syntax']],
    );
  });

  test('gives its worker the variables of groups, tab and subflow that its code names', () => {
    const variables: FlowVariable[] = [
      { name: 'PLACE', type: 'str' },
      { name: 'LIMIT', type: 'num' },
      { name: 'OTHER', type: 'str' },
    ];
    const func =
      "msg.payload = env.get('PLACE') + env.get('LIMIT') + env.get('HOME') + env.get('NR_FLOW_NAME');\nreturn msg;";
    const { properties, obstacles } = stageOfFunction({ ...EMPTY, func }, variables);
    const given = Object.entries(JSON.parse(properties.env) as object);
    assert.deepEqual(
      given.map(([name, value]) => `${name}: ${value}`),
      ['PLACE', 'LIMIT', 'NR_FLOW_NAME'].map((name) => `${name}: $\{${name}}`),
    );
    // A worker has text, and a function node the number.
    assert.deepEqual(told(obstacles), ["code 1 env env.get('LIMIT')"]);
  });

  const cases: readonly [code: string, ...expected: string[]][] = [
    ['const { topic } = msg;', 'message msg'],
    ['const copy = RED.util.cloneMessage(msg);', 'util RED.util', 'message msg'],
    ['msg.payload.list.push(1); delete msg.payload.x; msg.payload.n += 1; msg["payload"].m = 1;'],
    ['delete msg.topic;', 'writes msg.topic'],
    ['msg.parts.count++;', 'writes msg.parts'],
    ['const at = msg.parts.index;', 'reads msg.parts'],
    ['msg[msg.topic] = 1;', 'message msg[msg.topic]'],
    ['msg.res.send("x");', 'client msg.res'],
    ['msg = { payload: 1 };', 'message msg'],
    ['const name = "A"; env.get(name);', 'env env.get(name)'],
    ["env.get('$parent.NAME');", "env env.get('$parent.NAME')"],
    ['node.on("close", () => {});', 'node node.on'],
    ['const { log } = node;', 'node node'],
    ['node.error("only logged");'],
    ['setInterval(() => {}, 1000);', 'timer setInterval'],
    ['await new Promise((done) => { setImmediate(done); });'],
    // Names of the code itself.
    ['const flow = { get: () => 1 }; flow.get("x");'],
    ['[1].map((context) => context + 1); const f = ({ global }, ...RED) => global + RED; f({ global: 1 });'],
    ['function node() {} node();'],
    ['[1].map((flow) => flow + 1); flow.get("x");', 'context flow.get'],
    ['[{ topic: 1 }].map((msg) => msg.other);'],
    ['class context { flow = 1; } new context().flow; const o = { global: 1 }; o.global;'],
  ];
  for (const [code, ...expected] of cases) {
    test(`finds ${expected.join(', ') || 'nothing'} in: ${code}`, () => assert.deepEqual(found(code), expected));
  }

  const ends: readonly [code: string, drops: boolean][] = [
    ['if (msg.payload) return msg; else throw new Error("x");', false],
    ['if (msg.payload) return msg;', true],
    ['try { return msg; } catch (e) { node.warn(e); }', true],
    ['try { return msg; } catch (e) { throw e; }', false],
    ['try { node.log(1); } finally { return msg; }', false],
    ['switch (msg.topic) { case 1: return msg; default: throw 1; }', false],
    ['switch (msg.topic) { case 1: break; default: return msg; }', true],
    ['while (true) { if (msg.payload) return msg; }', false],
    ['for (;;) { break; }', true],
    ['for (;;) { [1].map(() => { for (;;) { break; } }); return msg; }', false],
    ['return msg.payload > 1 ? msg : null;', true],
    ['return;', true],
    ['return undefined;', true],
    ['const f = () => { return null; }; f(); return msg;', false],
  ];
  for (const [code, drops] of ends) {
    test(`${drops ? 'may drop' : 'answers'} each message: ${code}`, () => {
      const { obstacles } = stageOfFunction({ ...EMPTY, func: code }, []);
      assert.deepEqual(
        obstacles.map(({ reason }) => reason),
        drops ? ['drops'] : [],
      );
    });
  }
});

describe('a stage as a function node', () => {
  const STAGE = {
    source: 'inline',
    setup: '',
    code: 'msg.payload += 1;\nreturn msg;',
    teardown: '',
    libs: [],
    env: '',
    runTimeoutMs: 2500,
    init: '{"factor":2}',
    predict: 'item',
  };

  test('code that takes and returns messages stays as it is', () => {
    const { properties, obstacles } = functionOfStage(STAGE);
    assert.deepEqual([properties.func, properties.timeout, obstacles], [STAGE.code, 2.5, []]);
  });

  test('code that takes and returns values gets what surrounds it', async () => {
    const code = 'return input * state.factor;';
    const { properties, obstacles } = functionOfStage({ ...STAGE, setup: 'return init;', code });
    assert.deepEqual(obstacles, []);
    const kept = new Map<string, unknown>();
    const context = { get: (key: string) => kept.get(key), set: (key: string, value: unknown) => kept.set(key, value) };
    const run = (text: string, msg: object): Promise<unknown> =>
      new Function('context', 'msg', `return (async () => {\n${text}\n})();`)(context, msg) as Promise<unknown>;
    await run(properties.initialize, {});
    assert.deepEqual(await run(properties.func, { payload: 4, topic: 'x' }), { payload: 8, topic: 'x' });
  });

  test('names what a function node does not have', () => {
    const code = "const fs = require('fs');\nctx.progress(1);\nreturn input;";
    const { obstacles } = functionOfStage({ ...STAGE, source: 'inline', predict: 'batch', code });
    assert.deepEqual(told(obstacles), ['code 1 batch batch', 'code 2 ctx ctx', 'code 1 require require']);
    assert.deepEqual(told(functionOfStage({ ...STAGE, source: 'python' }).obstacles), ['code 1 source python']);
  });
});
