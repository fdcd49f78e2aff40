/** Invalid settings are config_invalid and name every invalid property; they never become defaults. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  compileBatcher,
  compileCollector,
  compileFeed,
  compileMetrics,
  compileRuntime,
} from '../../src/config/compile.ts';
import { compileStage } from '../../src/config/compile-stage.ts';
import { ModeletError } from '../../src/core/errors.ts';

type Raw = Readonly<Record<string, unknown>>;

const compilers: Readonly<Record<string, (raw: Raw) => unknown>> = {
  runtime: compileRuntime,
  batcher: compileBatcher,
  collector: compileCollector,
  feed: compileFeed,
  metrics: compileMetrics,
  stage: (raw) => compileStage(raw, (path) => path),
};

const INVALID: readonly (readonly [string, Raw, RegExp])[] = [
  ['batcher', { maxBatchSize: 0 }, /^maxBatchSize: must be >= 1; got 0$/],
  ['batcher', { maxBatchSize: 10_001 }, /^maxBatchSize: must be <= 10000; got 10001$/],
  ['batcher', { maxBatchSize: '2.5' }, /^maxBatchSize: must be integer; got "2.5"$/],
  ['batcher', { maxBatchSize: 'many' }, /^maxBatchSize: must be integer; got "many"$/],
  ['batcher', { maxBatchSize: Number.NaN }, /^maxBatchSize: must be/],
  ['batcher', { maxWaitMs: Number.POSITIVE_INFINITY }, /^maxWaitMs: must be/],
  ['batcher', { maxWaitMs: -1 }, /^maxWaitMs: must be >= 0/],
  ['batcher', { maxWaitMs: {} }, /^maxWaitMs: must be number/],
  ['batcher', { batchCost: 'sum', maxBatchCost: -1 }, /^maxBatchCost: must be >= 0/],
  ['batcher', { policy: 'eager' }, /^policy: must be one of greedy, oldest, gap, adaptive; got "eager"$/],
  ['batcher', { policy: 'Greedy' }, /^policy/],
  ['stage', { keyBy: 'topic', cache: 1 }, /^keyBy: the result depends on the state of the key/],
  ['stage', { keyIdleMs: 999 }, /^keyIdleMs: must be >= 1000/],
  ['runtime', { timeoutMs: -1 }, /^timeoutMs: must be >= 0/],
  ['runtime', { timeoutMs: 24 * 60 * 60 * 1000 + 1 }, /^timeoutMs: must be <=/],
  ['runtime', { capacity: 0 }, /^capacity/],
  ['runtime', { maxPayloadMb: 0 }, /^maxPayloadMb/],
  ['runtime', { maxPayloadMb: 513 }, /^maxPayloadMb/],
  ['runtime', { strictPins: 'yes' }, /^strictPins: must be boolean/],
  ['runtime', { logLevel: 'loud' }, /^logLevel: .*error, warn, info, debug, trace/],
  ['runtime', { engineCpus: '0-' }, /^engineCpus: "0-" is neither a core nor a range/],
  ['runtime', { serverCpus: 'all' }, /^serverCpus: "all"/],
  ['runtime', { serverCpus: '0 1' }, /^serverCpus/],
  ['runtime', { serverCpus: '1[2]' }, /^serverCpus/],
  ['runtime', { publicPath: '/a b' }, /^publicPath: must be a path of letters, digits .*; got "\/a b"$/],
  ['runtime', { publicPath: '/a//b' }, /^publicPath/],
  ['runtime', { publicPath: '/../admin' }, /^publicPath/],
  ['runtime', { publicPath: '/:id' }, /^publicPath/],
  ['runtime', { publicPath: '/a?b' }, /^publicPath/],
  ['runtime', { cors: 'app.example.com' }, /^cors: must be origins such as https:/],
  ['runtime', { cors: 'https://app.example.com/page' }, /^cors: must be origins/],
  ['runtime', { cors: 'https://*.example.com' }, /^cors: must be origins/],
  ['runtime', { baseUrl: 'api.example.com' }, /^baseUrl: must be like https:/],
  ['runtime', { baseUrl: 'https://a:b@example.com' }, /^baseUrl: must be like https:/],
  ['runtime', { v2Path: '/a b' }, /^v2Path: must be a path of letters/],
  ['runtime', { listen: 'http://a:80' }, /^listen: must be a port, host:port or unix:\/path; got "http:\/\/a:80"$/],
  ['runtime', { listen: '65536' }, /^listen: must be a port/],
  ['runtime', { listen: '::1:80' }, /^listen: must be a port/],
  ['runtime', { listen: 'unix:socket' }, /^listen: the path of a socket must be absolute; got "unix:socket"$/],
  ['runtime', { listen: '/run/' }, /^listen: the path of a socket must be absolute/],
  ['runtime', { listen: `/${'x'.repeat(103)}` }, /^listen: the path of a socket has 103 bytes at most/],
  ['collector', { catch: 'downstream' }, /^catch/],
  ['collector', { errorPayload: 'none' }, /^errorPayload/],
  ['collector', { results: 'some' }, /^results/],
  ['collector', { results: 'parts', order: 'arrival' }, /^results: parts leave as they are made/],
  ['stage', { predict: 'both' }, /^predict: .*item, batch/],
  ['stage', { capacity: 0 }, /^capacity/],
  ['stage', { output: 'res' }, /^output: msg\.res belongs to the HTTP client; another name/],
  ['stage', { output: 'req' }, /^output: msg\.req belongs/],
  ['stage', { output: 'res.x' }, /^output: msg\.res belongs/],
  ['stage', { output: 'req["x"]' }, /^output: msg\.req belongs/],
  ['stage', { output: '"res".x' }, /^output: msg\.res belongs/],
  ['stage', { output: 'msg.res' }, /^output: msg\.res belongs/],
  ['stage', { init: '{"a":' }, /^init: .*JSON/],
  ['stage', { init: "{'a':1}" }, /^init: .*JSON/],
  ['stage', { inputSchema: '{"type":' }, /^inputSchema: .*JSON/],
  ['stage', { inputSchema: '[]' }, /^inputSchema: must be a JSON Schema, which is an object$/],
  ['stage', { inputSchema: '{"type": "numbr"}' }, /^inputSchema: schema is invalid/],
  ['stage', { outputSchema: '{"tipe": "number"}' }, /^outputSchema: .*unknown keyword: "tipe"/],
  ['stage', { cpus: '0,,1' }, /^cpus: CPU list "0,,1"/],
  ['stage', { overflow: 'drop' }, /^overflow: .*auto, refuse, wait, drop-oldest/],
  ['stage', { maxAgeMs: -1 }, /^maxAgeMs/],
  ['stage', { mediaTypes: 'json' }, /^mediaTypes: "json" is not a media type such as image\/png or image\/\*$/],
  ['stage', { mediaTypes: 'image/png,' }, /^mediaTypes: "" is not a media type/],
  ['stage', { mediaTypes: '*/png' }, /^mediaTypes: "\*\/png" is not/],
  ['stage', { mediaTypes: 'text/plain;charset=utf-8' }, /^mediaTypes/],
  ['collector', { order: 'random' }, /^order: .*completion, arrival/],
  ['feed', { from: 'xml' }, /^from: .*array, lines, jsonl, csv/],
  ['metrics', { intervalMs: 99 }, /^intervalMs: must be >= 100/],
  ['metrics', { intervalMs: 'often' }, /^intervalMs: must be integer/],
  ['feed', { window: 0 }, /^window: must be >= 1/],
  ['stage', { source: 'file' }, /^path: the file of the modelet is missing$/],
  ['stage', { source: 'file', path: '  ' }, /^path: the file of the modelet is missing$/],
  ['stage', { source: 'module' }, /^module: the name of the npm module is missing$/],
  ['stage', { source: 'module', module: '../mine' }, /^module: "\.\.\/mine" is not the name of an npm module$/],
  ['stage', { source: 'module', module: 'fs' }, /^module: fs is a part of Node\.js/],
  ['stage', { libs: 'jpeg-js' }, /^libs: must be array/],
  ['stage', { libs: [{ var: 'jpeg' }] }, /^libs\/0: must have required property 'module'/],
  ['stage', { libs: [{ module: 'jpeg-js' }] }, /^libs: the module jpeg-js needs a variable$/],
  ['stage', { libs: [{ var: 'a-b', module: 'a' }] }, /^libs: "a-b" cannot name a variable$/],
  ['stage', { libs: [{ var: '){', module: 'a' }] }, /^libs: "\){" cannot name a variable$/],
  ['stage', { libs: [{ var: 'input', module: 'a' }] }, /^libs: the name input is a word of JavaScript or a variable/],
  ['stage', { libs: [{ var: 'class', module: 'a' }] }, /^libs: the name class is a word of JavaScript or a variable/],
  ['stage', { libs: ['a', 'b'].map((module) => ({ var: 'x', module })) }, /^libs: two modules have the variable x$/],
  ['stage', { libs: [{ var: 'a', module: '../a' }] }, /^libs: "\.\.\/a" is not the name of an npm module$/],
  ['stage', { libs: [{ var: 'a', module: 'node:nothing' }] }, /^libs: "node:nothing" is not the name/],
  ['stage', { source: 'python' }, /^path: the file of the modelet is missing$/],
  ['stage', { source: 'python', path: 'm.py', isolation: 'thread' }, /^isolation: Python runs in separate processes/],
  ['stage', { source: 'python-code', isolation: 'thread' }, /^isolation: Python runs in separate processes/],
  ['stage', { source: 'python-code', requirements: ['numpy', '-r list.txt'] }, /^requirements: "-r list.txt" is not/],
  ['stage', { source: 'onnx' }, /^path: the file of the modelet is missing$/],
  ['stage', { source: 'onnx', path: 'm.onnx', isolation: 'thread' }, /^isolation: an ONNX model runs in native code/],
  ['stage', { source: 'onnx', path: 'm.onnx', concurrency: 2 }, /^concurrency: an ONNX model computes one batch/],
  ['stage', { source: 'task' }, /^model: the name or folder of the model is missing$/],
  ['stage', { source: 'task', model: 'm', isolation: 'thread' }, /^isolation: a known model runs in native code/],
  ['stage', { source: 'onnx', path: 'm.onnx', init: '[]' }, /^init: must be an object$/],
  [
    'stage',
    { source: 'onnx', path: 'm.onnx', init: '{"softMax": true}' },
    /^init: an ONNX stage has no "softMax"; there/,
  ],
  ['stage', { source: 'onnx', path: 'm.onnx', init: '{"threads": 0}' }, /^init: "threads" must be a whole number/],
  ['stage', { source: 'onnx', path: 'm.onnx', init: '{"labels": [1]}' }, /^init: "labels" must be an array of texts/],
  ['stage', { source: 'onnx', path: 'm.onnx', init: '{"executionProviders": "cuda"}' }, /^init: "executionProviders"/],
  ['stage', { source: 'onnx', path: 'm.onnx', init: '{"tensors": true, "softmax": true}' }, /^init: "tensors" gives/],
  ...(
    [
      ['{"takes": "sound"}', /^init: "takes" must be tensors, picture$/],
      ['{"gives": "boxes", "threshold": 2}', /^init\/threshold: must be <= 1/],
      ['{"gives": "boxes", "pooling": "mean"}', /^init: an ONNX stage has no "pooling"; there are .*, iou, topK$/],
      ['{"takes": "picture", "size": "640 by 480"}', /^init\/size: must match pattern/],
      ['{"takes": "picture", "mean": [0.5], "std": []}', /^init: "mean" and "std" must have three numbers each/],
      ['{"gives": "classes", "softmax": true}', /^init: "tensors" and "softmax" have no effect where the model gives/],
      ['{"takes": "tensors", "resize": "crop"}', /^init: an ONNX stage has no "resize"/],
    ] as const
  ).map(([init, message]) => ['stage', { source: 'onnx', path: 'm.onnx', init }, message] as const),
  ['stage', { source: 'wasm' }, /^source/],
];

for (const [kind, raw, message] of INVALID) {
  const shown = Object.entries(raw).map(
    ([key, value]) => `${key} ${Array.isArray(value) ? JSON.stringify(value) : String(value)}`,
  );
  test(`${kind}: ${shown.join(', ')}`, () => {
    assert.throws(
      () => compilers[kind]?.(raw),
      (error) => {
        assert.ok(error instanceof ModeletError, String(error));
        assert.equal(error.code, 'config_invalid');
        assert.match(error.message, message);
        return true;
      },
    );
  });
}

test('the error lists every invalid property', () => {
  assert.throws(() => compileBatcher({ maxBatchSize: 0, policy: 'x', maxWaitMs: 'y' }), {
    code: 'config_invalid',
    message: /maxBatchSize: .*; policy: .*; maxWaitMs: /,
  });
});

test('the error names an environment variable that is not set', () => {
  const cases: readonly (readonly [string, Raw, string])[] = [
    // biome-ignore lint/suspicious/noTemplateCurlyInString: this is what Node-RED leaves in place
    ['batcher', { maxBatchSize: '${BATCH}' }, 'maxBatchSize: the environment variable BATCH is not set'],
    ['batcher', { maxBatchSize: '$(BATCH)' }, 'maxBatchSize: the environment variable BATCH is not set'],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: as above
    ['stage', { cpus: '${PINS}' }, 'cpus: the environment variable PINS is not set'],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: as above
    ['runtime', { timeoutMs: '${T}' }, 'timeoutMs: the environment variable T is not set'],
  ];
  for (const [kind, raw, message] of cases) {
    assert.throws(() => compilers[kind]?.(raw), { code: 'config_invalid', message });
  }
});

test('the error for a missing file shows its path', () => {
  const missing = (): string => {
    throw new Error('no file /x/y.js');
  };
  assert.throws(() => compileStage({ source: 'file', path: 'y.js' }, missing), {
    code: 'config_invalid',
    message: 'path: no file /x/y.js',
  });
});
