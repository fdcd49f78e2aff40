/** A flow saved by any version: absent properties take the schema's defaults, numbers may be text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  compileBatcher,
  compileCollector,
  compileFeed,
  compileJoin,
  compileMetrics,
  compileRuntime,
  compileStream,
  compileView,
} from '../../src/config/compile.ts';
import { compileStage } from '../../src/config/compile-stage.ts';
import { formatListen } from '../../src/config/formats/listen.ts';
import { NODE_SCHEMAS, type NodeType } from '../fixtures/node-schemas.ts';

const noFile = (path: string): string => {
  throw new Error(`no file ${path}`);
};

function defaults(type: NodeType): Record<string, unknown> {
  return Object.fromEntries(Object.entries(NODE_SCHEMAS[type].properties).map(([key, { default: of }]) => [key, of]));
}

test('a runtime without properties gets all defaults', () => {
  const config = compileRuntime({ id: 'r1', type: 'modelet-runtime' });
  const expected = defaults('modelet-runtime');
  for (const key of [
    'timeoutMs',
    'flowTimeoutMs',
    'capacity',
    'strictPins',
    'logLevel',
    'name',
    'publicPath',
    'v2Path',
    'baseUrl',
  ] as const) {
    assert.deepEqual(config[key], expected[key], key);
  }
  assert.equal(config.maxPayloadBytes, 64 * 1024 * 1024);
  assert.equal(config.engineCpus, null);
  assert.equal(config.serverCpus, null);
  assert.equal(config.listen, null);
  assert.deepEqual(compileRuntime(expected), config);
});

test('a batcher, collector, gathering, streaming, feed or metrics node without properties gets all defaults and nothing else', () => {
  assert.deepEqual({ ...compileBatcher({ id: 'b', z: 'tab', wires: [[]] }) }, defaults('modelet-batcher'));
  assert.deepEqual({ ...compileCollector({ id: 'c', z: 'tab', wires: [[]] }) }, defaults('modelet-collector'));
  assert.deepEqual({ ...compileMetrics({ id: 'm', z: 'tab', wires: [[]] }) }, defaults('modelet-metrics'));
  assert.deepEqual({ ...compileFeed({ id: 'f', z: 'tab', wires: [[]] }) }, defaults('modelet-feed'));
  assert.deepEqual({ ...compileJoin({ id: 'j', z: 'tab', wires: [[]] }) }, defaults('modelet-join'));
  assert.deepEqual({ ...compileStream({ id: 's', z: 'tab', wires: [] }) }, defaults('modelet-stream'));
  assert.deepEqual({ ...compileView({ id: 'v', z: 'tab', wires: [[], []] }) }, defaults('modelet-view'));
});

test('a stage without properties gets all defaults', () => {
  const config = compileStage({}, noFile);
  const expected = defaults('modelet-stage');
  for (const [key, value] of Object.entries(config)) {
    if (
      key in expected &&
      !['init', 'inputSchema', 'outputSchema', 'workers', 'source', 'mediaTypes', 'rollback'].includes(key)
    )
      assert.deepEqual(value, expected[key], key);
  }
  assert.deepEqual(config.init, {});
  assert.deepEqual([config.inputSchema, config.outputSchema], [null, null]);
  assert.deepEqual(config.workers, [{ cpus: null, env: {} }]);
  assert.deepEqual(config.mediaTypes, ['application/json', 'application/msgpack']);
  assert.deepEqual(config.source, { kind: 'inline', setup: '', code: 'return input;', teardown: '', libs: [] });
  assert.deepEqual(compileStage(expected, noFile), config);
});

test('a public path may have or lack its outer slashes', () => {
  const written = ['', '  ', '/', 'ops', '/ops', '/ops/', 'a/b.c/', '/v1/~x_y-z'];
  assert.deepEqual(
    written.map((publicPath) => compileRuntime({ publicPath }).publicPath),
    ['', '', '/', '/ops', '/ops', '/ops', '/a/b.c', '/v1/~x_y-z'],
  );
});

test('an address to listen at is a port, a host and a port, or the path of a socket, and is shown as one', () => {
  const rows = [
    ['8080', { host: null, port: 8080 }, '8080'],
    [' *:0 ', { host: null, port: 0 }, '0'],
    [':80', { host: null, port: 80 }, '80'],
    ['127.0.0.1:8080', { host: '127.0.0.1', port: 8080 }, '127.0.0.1:8080'],
    ['[::1]:8080', { host: '::1', port: 8080 }, '[::1]:8080'],
    ['my-host.local:1', { host: 'my-host.local', port: 1 }, 'my-host.local:1'],
    ['unix:/run/e.sock', { path: '/run/e.sock' }, 'unix:/run/e.sock'],
    ['unix:///run/e.sock', { path: '/run/e.sock' }, 'unix:/run/e.sock'],
    ['/run/e.sock', { path: '/run/e.sock' }, 'unix:/run/e.sock'],
  ] as const;
  for (const [text, address, shown] of rows) {
    const { listen } = compileRuntime({ listen: text });
    assert.deepEqual(listen, address, text);
    assert.equal(listen && formatListen(listen), shown);
  }
});

test('the defaults match the public contract', () => {
  const { timeoutMs, flowTimeoutMs, capacity, maxPayloadMb, strictPins, logLevel } = defaults('modelet-runtime');
  assert.deepEqual(
    [timeoutMs, flowTimeoutMs, capacity, maxPayloadMb, strictPins, logLevel],
    [30_000, 0, 4096, 64, false, 'info'],
  );
  const { maxBatchSize, policy, maxWaitMs, targetMs } = defaults('modelet-batcher');
  assert.deepEqual([maxBatchSize, policy, maxWaitMs, targetMs], [32, 'greedy', 10, 100]);
  const stage = defaults('modelet-stage');
  assert.deepEqual(
    [stage['source'], stage['predict'], stage['workers'], stage['cpus'], stage['capacity'], stage['startTimeoutMs']],
    ['inline', 'item', '', '', 1024, 60_000],
  );
  assert.deepEqual([stage['overflow'], stage['maxAgeMs'], stage['dropKey']], ['auto', 0, '']);
  const { from, window } = defaults('modelet-feed');
  assert.deepEqual([from, window], ['array', 256]);
  assert.equal(defaults('modelet-runtime')['holdOnDeploy'], true);
  const collector = defaults('modelet-collector');
  assert.deepEqual(
    [collector['order'], collector['catch'], collector['errorPayload']],
    ['completion', 'upstream', 'body'],
  );
});

test('every default passes its own bounds', () => {
  for (const [type, { properties }] of Object.entries(NODE_SCHEMAS)) {
    for (const [key, property] of Object.entries(properties)) {
      const value = property.default;
      const where = `${type}.${key}`;
      if (property.type === 'array') assert.deepEqual(value, [], where);
      else assert.equal(typeof value, property.type === 'integer' ? 'number' : property.type, where);
      if (property.enum) assert.ok(property.enum.includes(value as string), where);
      if (property.minimum !== undefined) assert.ok((value as number) >= property.minimum, where);
      if (property.maximum !== undefined) assert.ok((value as number) <= property.maximum, where);
    }
  }
});

test('blank properties take their defaults, but blank code is an error', () => {
  assert.equal(compileBatcher({ maxBatchSize: '', policy: '', maxWaitMs: null }).maxBatchSize, 32);
  const stage = compileStage({ code: '', input: '', output: '', init: '', capacity: '' }, noFile);
  assert.deepEqual(stage.source, { kind: 'inline', setup: '', code: '', teardown: '', libs: [] });
  assert.deepEqual([stage.input, stage.output, stage.init, stage.capacity], ['payload', 'payload', {}, 1024]);
});

test('numbers and booleans may arrive as text, and text as a number', () => {
  const batcher = compileBatcher({ maxBatchSize: '64', maxWaitMs: '2.5' });
  assert.deepEqual([batcher.maxBatchSize, batcher.maxWaitMs], [64, 2.5]);
  assert.equal(compileBatcher({ costBy: ' ' }).costBy, 'bytes');
  const runtime = compileRuntime({ timeoutMs: '100', strictPins: 'true', maxPayloadMb: '0.5', name: 7 });
  assert.deepEqual(
    [runtime.timeoutMs, runtime.strictPins, runtime.maxPayloadBytes, runtime.name],
    [100, true, 524_288, '7'],
  );
  assert.equal(compileStage({ workers: 3 }, noFile).workers.length, 3);
});

test('the compiler freezes settings and leaves the node unchanged', () => {
  const raw = { maxBatchSize: '8' };
  const config = compileBatcher(raw);
  assert.ok(Object.isFrozen(config));
  assert.ok(Object.isFrozen(compileRuntime({})) && Object.isFrozen(compileCollector({})));
  assert.ok(Object.isFrozen(compileStage({}, noFile)));
  assert.deepEqual(raw, { maxBatchSize: '8' });
});
