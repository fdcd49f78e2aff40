/** The editor saves the typed values, and its dialogs show the saved values. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import type { Locator } from 'playwright-core';
import { isConfig, NODE_SCHEMAS, type NodeType } from '../../fixtures/node-schemas.ts';
import { type EditorPage, ours } from '../editor-page.ts';
import { Form, type Values } from '../form.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

declare const RED: {
  readonly nodes: {
    node(id: string): { readonly [property: string]: unknown } & {
      readonly _def: { readonly defaults: Record<string, { validate?(value: unknown, options: object): unknown }> };
    };
  };
};

/** The fields of a gate depend on its source: its dialog has a separate test file. */
type Typed = Exclude<NodeType, 'modelet-gate'>;

const TYPES = (Object.keys(NODE_SCHEMAS) as NodeType[]).filter((type): type is Typed => type !== 'modelet-gate');
const ON_CANVAS = TYPES.filter((type) => !isConfig(type));

/** A value for each property, none of them the default. */
const TYPED: Readonly<Record<Typed, Values>> = {
  'modelet-runtime': {
    name: 'second engine',
    timeoutMs: '1500',
    flowTimeoutMs: '2500',
    capacity: '17',
    maxPayloadMb: '0.5',
    maxQueueMb: '64',
    engineCpus: '0',
    serverCpus: '0-1',
    strictPins: true,
    holdOnDeploy: false,
    logLevel: 'debug',
    publicPath: '/ops',
    v2Path: '/triton',
    baseUrl: 'https://api.example.com/v1',
    listen: '127.0.0.1:8080',
    cors: 'https://app.example.com',
  },
  'modelet-keys': { name: 'customers' },
  'modelet-broker': { name: 'shared', url: 'rediss://example.org:6380/1', prefix: 'plant.7' },
  'modelet-stage': {
    name: 'classify',
    setup: "return { weights: require('fs').existsSync('x') };",
    code: 'return input.map((row) => row.length);',
    teardown: "node.log('ends');",
    init: '{"threshold": 0.5}',
    predict: 'batch',
    emits: 'list',
    inputSchema: '{"type": "object"}',
    outputSchema: '{"type": "number"}',
    workers: '0-3',
    idleMs: '90000',
    cpus: '0,[0,1],-',
    env: '{"MODE": "fast"}',
    input: 'payload.image',
    output: 'result',
    mediaTypes: 'image/*, application/msgpack',
    maxRows: '64',
    capacity: '7',
    queueMb: '40',
    overflow: 'drop-oldest',
    maxAgeMs: '900',
    cache: '500',
    cacheMb: '128',
    cacheTtlMs: '0',
    dropKey: 'topic',
    keyBy: 'camera',
    keyIdleMs: '5000',
    stateKb: '128',
    keySnapshotMb: '16',
    sticky: 'user.id',
    rollback: '5',
    startTimeoutMs: '0',
    runTimeoutMs: '2000',
    rerun: 'on',
    retryLost: true,
    heapMb: '256',
    concurrency: '8',
    maxRssMb: '512',
    recycleAfter: '1000',
    placement: 'local',
    isolation: 'process',
    source: 'python',
    module: '',
    path: 'models/classify.py',
    watch: true,
    python: 'python3.12',
    preload: true,
  },
  'modelet-batcher': {
    ...{ name: 'by eight', policy: 'gap', maxBatchSize: '8', maxWaitMs: '2.5' },
    ...{ batchCost: 'padded', maxBatchCost: '4096', costBy: 'payload.length' },
  },
  'modelet-collector': { name: 'answers', order: 'completion', results: 'parts', errorPayload: 'keep', catch: 'off' },
  'modelet-join': { name: 'gather', mode: 'quorum', quorum: '2', key: 'model', timeoutMs: '500', partial: 'keep' },
  'modelet-stream': { name: 'tokens', format: 'sse', event: 'token', heartbeatMs: '5000' },
  'modelet-feed': { name: 'lines', from: 'lines', window: '9' },
  'modelet-metrics': { name: 'each second', intervalMs: '250' },
  'modelet-view': { name: 'door', picture: 'frame', results: 'objects', rate: '2.5', width: '320', maxMb: '0.5' },
};

/** Properties that the dialog does not show for these values, or that another test types. */
const HIDDEN: Partial<Record<Typed, readonly string[]>> = {
  'modelet-stage': ['setup', 'code', 'teardown', 'outputs', 'module', 'task', 'model', 'precision'],
  'modelet-batcher': ['targetMs'],
  'modelet-collector': ['errorPayload'],
  'modelet-join': ['form', 'maxItems'],
};

async function assertKept(editor: EditorPage, id: string, type: Typed, form: Form): Promise<void> {
  const values = TYPED[type];
  const saved = ours(await editor.saved(id));
  for (const [property, value] of Object.entries(values)) assert.equal(saved[property], value, `${type} ${property}`);
  // A list has a separate test.
  const elsewhere = ['runtime', 'tls', 'broker', 'keys', ...(HIDDEN[type] ?? [])];
  const missing = Object.entries(NODE_SCHEMAS[type].properties).flatMap(([name, property]) =>
    name in values || elsewhere.includes(name) || property.type === 'array' ? [] : name,
  );
  assert.deepEqual(missing, [], `${type}: no value here`);
  const shown = Object.keys(values).filter((property) => !HIDDEN[type]?.includes(property));
  return assert.deepEqual(
    await form.get(shown),
    Object.fromEntries(shown.map((property) => [property, values[property]])),
  );
}

/**
 * The properties whose values the editor refuses. Soon after OK, the name has the verdict of the server, which finds no file
 * and refuses some of these values beside each other.
 */
function refused(editor: EditorPage, id: string): Promise<string[]> {
  return editor.page.evaluate((id) => {
    const node = RED.nodes.node(id);
    const properties = Object.entries(node._def.defaults).filter(([property]) => property !== 'name');
    return properties.flatMap(([property, { validate }]) => {
      const verdict = validate ? validate.call(node, node[property], {}) : true;
      return verdict === true ? [] : [`${property}: ${verdict}`];
    });
  }, id);
}

for (const type of ON_CANVAS) {
  test(`the dialog of ${type} saves the typed values on OK and shows them again`, async () => {
    await session.inEditor([], async (editor) => {
      const id = await editor.dragFromPalette(type, 400, 100);
      const form = new Form(editor);
      await editor.open(id);
      await form.unfold();
      // Blank is what is hidden for this source.
      await form.set(Object.fromEntries(Object.entries(TYPED[type]).filter(([, value]) => value !== '')));
      await editor.ok();
      assert.deepEqual(await refused(editor, id), []);
      await editor.open(id);
      await form.unfold();
      await assertKept(editor, id, type, form);
      await editor.cancel();
    });
  });
}

test('the dialogs of modelet-runtime and modelet-broker save the typed values on OK and show them again', async () => {
  await session.inEditor([], async (editor) => {
    const stage = await editor.dragFromPalette('modelet-stage', 400, 100);
    const id = String((await editor.saved(stage))['runtime']);
    const form = new Form(editor, 'config');
    await editor.open(stage);
    await editor.openConfig('runtime');
    await form.set(TYPED['modelet-runtime']);
    await editor.openConfig('broker', 'add');
    await form.set({ ...TYPED['modelet-broker'], username: 'worker', password: 'secret' });
    await editor.ok();
    const { broker } = await form.get(['broker']);
    await editor.openConfig('broker');
    await assertKept(editor, String(broker), 'modelet-broker', form);
    assert.deepEqual(await form.get(['username']), { username: 'worker' });
    await editor.cancel();
    await editor.ok();
    await editor.openConfig('runtime');
    await assertKept(editor, id, 'modelet-runtime', form);
    await editor.cancel();
    await editor.ok();
  });
});

test('the dialog of modelet-keys hashes what is typed, keeps what is not, and never shows a key again', async () => {
  await session.inEditor([], async (editor) => {
    const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
    const stage = await editor.dragFromPalette('modelet-stage', 400, 100);
    const id = String((await editor.saved(stage))['runtime']);
    const field = (property: string): Locator => editor.page.locator(`.modelet-client-${property}`).last();
    const add = (): Promise<void> =>
      editor.page.locator('.red-ui-tray-body .red-ui-editableList-addButton').last().click();
    await editor.open(stage);
    await editor.openConfig('runtime');
    await editor.openConfig('keys', 'add');
    await new Form(editor, 'config').set(TYPED['modelet-keys']);
    await add();
    await field('name').fill('app');
    // Longer than two blocks of the hash.
    const typed = 'k'.repeat(150);
    await field('key').fill(typed);
    await field('rate').fill('2.5');
    await field('paths').fill('/v1, /v2');
    await editor.ok();
    const { keys } = await new Form(editor, 'config').get(['keys']);
    await editor.openConfig('keys');
    assert.equal(await field('key').inputValue(), '');
    await add();
    await field('name').fill('batch');
    await editor.page.locator('.modelet-client button').last().click();
    const made = await field('key').inputValue();
    assert.match(made, /^[0-9a-f]{48}$/);
    await field('concurrent').fill('3');
    await editor.ok();
    await editor.ok();
    assert.equal((await editor.saved(id))['keys'], keys);
    const { clients, credentials } = (await editor.saved(String(keys))) as unknown as {
      clients: object[];
      credentials: object;
    };
    assert.deepEqual(clients, [
      { name: 'app', rate: '2.5', concurrent: '', paths: '/v1, /v2' },
      { name: 'batch', rate: '', concurrent: '3', paths: '' },
    ]);
    const hashes = { app: sha256(typed), batch: sha256(made) };
    assert.deepEqual(JSON.parse((credentials as { hashes: string }).hashes), hashes);
    await editor.openConfig('runtime');
    await editor.openConfig('keys');
    // The row of a client that was removed is still fading away.
    await editor.page.evaluate(
      "$.fx.off = false; $('.red-ui-tray-body .red-ui-editableList-item-remove').last().trigger('click'); $.fx.off = true; $('#node-config-dialog-ok').trigger('click')",
    );
    await editor.settle(2);
    await editor.ok();
    assert.deepEqual((await editor.saved(String(keys)))['clients'], clients.slice(0, 1));
    await editor.ok();
  });
});
