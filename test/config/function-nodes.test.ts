/** A function node becomes a stage: its code as it is, and by line and expression what a worker does not have. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Obstacle } from '../../src/config/code/function-code.ts';
import { messageUseOf } from '../../src/config/code/message-use.ts';
import { type FunctionProperties, functionOfStage, stageOfFunction } from '../../src/node-red/functions/conversion.ts';

import { FUNCTION_CORPUS } from '../fixtures/function-corpus.ts';

const EMPTY: FunctionProperties = { func: '', initialize: '', finalize: '', outputs: 1, timeout: 0, libs: [] };

function told(obstacles: readonly Obstacle[]): string[] {
  return obstacles.map(({ tab, line, reason, name }) => `${tab} ${line} ${reason} ${name}`);
}

/** Returns the obstacles in code, without those of its end. */
function found(code: string): string[] {
  const { obstacles } = stageOfFunction({ ...EMPTY, func: `${code}\nreturn msg;` });
  return obstacles.map(({ reason, name }) => `${reason} ${name}`);
}

describe('a function node as a stage', () => {
  for (const { name, func, initialize = '', outputs = 1, libs = [], obstacles } of FUNCTION_CORPUS) {
    test(name, () => {
      const converted = stageOfFunction({ ...EMPTY, func, initialize, outputs, libs });
      assert.deepEqual(told(converted.obstacles), obstacles);
      const { properties } = converted;
      assert.deepEqual([properties.code, properties.libs, properties.outputs], [func, libs, outputs]);
    });
  }

  test('keeps On Start, On Stop and the time limit', () => {
    const tabs = { func: 'return msg;', initialize: 'node.log("on")', finalize: 'node.log("off")' };
    const { properties } = stageOfFunction({ ...EMPTY, ...tabs, timeout: 1.5 });
    const { source, setup, teardown, runTimeoutMs } = properties;
    assert.deepEqual([source, setup, teardown, runTimeoutMs], ['inline', 'node.log("on")', 'node.log("off")', 1500]);
  });

  test('names the line of a syntax error', () => {
    const { obstacles } = stageOfFunction({ ...EMPTY, func: 'return msg;', finalize: 'const a = 1;\nconst = 2;' });
    assert.deepEqual(
      obstacles.map(({ tab, line, reason }) => [tab, line, reason]),
      [['teardown', 2, 'syntax']],
    );
  });

  const cases: readonly [code: string, ...expected: string[]][] = [
    ['const { topic } = msg; const copy = RED.util.cloneMessage(msg);'],
    ['RED.util.evaluateJSONataExpression("x");', 'util RED.util.evaluateJSONataExpression'],
    ['msg.payload.list.push(1); delete msg.payload.x; msg.payload.n += 1; msg["payload"].m = 1;'],
    ['delete msg.topic; msg.parts.count++; const at = msg.parts.index; msg[msg.topic] = 1; msg = { payload: 1 };'],
    ['msg.res.send("x");', 'client msg.res'],
    ['const name = "A"; env.get(name);', 'env env.get(name)'],
    ["env.get('$parent.NAME');", "env env.get('$parent.NAME')"],
    ['node.on("close", () => {});', 'node node.on'],
    ['const { log } = node;', 'node node'],
    ['node.error("only logged"); node.error("caught", msg); node.status({});'],
    ['flow.get("a"); flow.get(["a", "b"], "disk"); global.set(msg.topic, 1); context.increment("n", 2);'],
    ['flow.keys(); global.keys("disk"); context.update("n", (n) => n + 1); flow.get(msg.topic, take);'],
    ['flow.get("a", msg.store); flow.keys(`disk`);', 'context flow.get("a", msg.store)', 'context flow.keys(`disk`)'],
    ['const key = "a"; flow.get(key); take(global);', 'context global'],
    ['msg.payload.forEach((one) => node.send({ payload: one }));'],
    ['take((one) => node.send({ payload: one }));', 'send node.send'],
    ['take((one) => { node.send({ payload: one }); node.done(); }); setTimeout(() => node.done(), 1);'],
    ['await take((one) => node.send({ payload: one }));'],
    ['setInterval(() => {}, 1000);', 'timer setInterval'],
    ['await new Promise((done) => { setImmediate(done); });'],
    // Names of the code itself.
    ['const flow = { get: () => 1 }; flow.get("x");'],
    ['[1].map((context) => context + 1); const f = ({ global }, ...RED) => global + RED; f({ global: 1 });'],
    ['function node() {} node();'],
    ['[1].map((flow) => flow + 1); flow.clear();', 'context flow.clear'],
    ['[{ topic: 1 }].map((msg) => msg.other);'],
    ['class context { flow = 1; } new context().flow; const o = { global: 1 }; o.global;'],
  ];
  for (const [code, ...expected] of cases) {
    test(`finds ${expected.join(', ') || 'nothing'} in: ${code}`, () => assert.deepEqual(found(code), expected));
  }

  test('code without whole messages returns values, and what it drops is named', () => {
    const told = (func: string): string[] => stageOfFunction({ ...EMPTY, func }).obstacles.map(({ reason }) => reason);
    assert.deepEqual(told('if (msg.payload) return { a: 1 };'), ['returns', 'drops']);
    assert.deepEqual(told('return input;'), ['returns']);
    assert.deepEqual(told('if (msg.payload) return { a: 1 };\nreturn msg;'), []);
  });
});

describe('whole messages', () => {
  const whys: readonly [code: string, why: string | null, outputs?: number][] = [
    ['return input * 2;', null],
    ['msg.payload = msg.payload * 2; node.warn(msg.topic + env.get("X")); return msg;', null],
    ['const { payload, topic } = msg; return payload ? { payload } : null;', null],
    ['msg.topic = "x"; return msg;', 'changes msg.topic'],
    ['return { name: msg.filename };', 'reads msg.filename'],
    ['return take(msg);', 'uses the whole message'],
    ['return msg.modelet.options;', null],
    ['return input * (flow.get("factor") ?? 1);', 'uses flow.get'],
    ['return msg;', 'has 2 outputs', 2],
    ['return [msg, msg];', 'returns several messages, or new ones'],
    // Whether a run can pass the end of the code.
    ['if (msg.payload) return msg; else throw new Error("x");', null],
    ['if (msg.payload) return msg;', 'may drop messages'],
    ['try { return msg; } catch (e) { node.warn(e); }', 'may drop messages'],
    ['try { return msg; } catch (e) { throw e; }', null],
    ['try { node.log(1); } finally { return msg; }', null],
    ['switch (msg.topic) { case 1: return msg; default: throw 1; }', null],
    ['switch (msg.topic) { case 1: break; default: return msg; }', 'may drop messages'],
    ['while (true) { if (msg.payload) return msg; }', null],
    ['for (;;) { break; } if (msg.payload) return msg;', 'may drop messages'],
    ['for (;;) { [1].map(() => { for (;;) { break; } }); return msg; }', null],
    ['return msg.payload > 1 ? msg : null;', 'may drop messages'],
    ['node.log(msg.payload); return;', 'may drop messages'],
    ['const f = () => { return null; }; f(); return msg;', null],
  ];
  for (const [code, why, outputs = 1] of whys) {
    test(`${why ?? 'the payload alone'}: ${code}`, () => assert.equal(messageUseOf(code, outputs)?.why ?? null, why));
  }
});

describe('a stage as a function node', () => {
  const STAGE = {
    source: 'inline',
    setup: '',
    code: 'msg.payload += 1;\nreturn msg;',
    teardown: '',
    libs: [],
    outputs: 1,
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
