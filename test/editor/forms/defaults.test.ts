/** New nodes have the properties and defaults of the schema. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isConfig, NODE_SCHEMAS, type NodeType } from '../../fixtures/node-schemas.ts';
import { exportAll, importFlows } from '../clipboard.ts';
import { ours } from '../editor-page.ts';
import { Form } from '../form.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

const TYPES = Object.keys(NODE_SCHEMAS) as NodeType[];

function defaults(type: NodeType): Record<string, unknown> {
  const { properties } = NODE_SCHEMAS[type];
  return Object.fromEntries(Object.entries(properties).map(([name, { default: value }]) => [name, value]));
}

test('a new node is exported with every property of the schema at its default', async () => {
  await session.inEditor([], async (editor) => {
    // The first stage brings the runtime along; keys and a broker are made in the dialog of a runtime, see below.
    for (const [index, type] of TYPES.filter((name) => !isConfig(name)).entries()) {
      await editor.dragFromPalette(type, 400, 60 + 60 * index);
    }
    const exported = await exportAll(editor);
    const runtime = exported.find(({ type }) => type === 'modelet-runtime');
    const given: Partial<Record<NodeType, object>> = {
      'modelet-runtime': { name: 'default' },
      'modelet-stage': { runtime: runtime?.id },
      'modelet-gate': { runtime: runtime?.id },
      'modelet-metrics': { runtime: runtime?.id },
    };
    for (const type of TYPES.filter((name) => !['modelet-broker', 'modelet-keys'].includes(name))) {
      const node = exported.find((candidate) => candidate.type === type);
      assert.ok(node, type);
      const actual = ours(node);
      // In the editor, a comment above the code explains it.
      if (type === 'modelet-stage') actual['code'] = String(actual['code']).replace(/^\/\/.*\n/, '');
      assert.deepEqual(actual, { ...defaults(type), ...given[type] }, type);
    }
  });
});

test('a runtime and a broker created in their dialogs have every property at its default', async () => {
  await session.inEditor([], async (editor) => {
    const stage = await editor.dragFromPalette('modelet-stage', 400, 100);
    const first = (await editor.saved(stage))['runtime'];
    await editor.open(stage);
    await editor.openConfig('runtime', 'add');
    await editor.openConfig('broker', 'add');
    await editor.ok();
    await editor.ok();
    await editor.ok();
    const second = String((await editor.saved(stage))['runtime']);
    assert.notEqual(second, first);
    const { broker, credentials: secrets, ...saved } = ours(await editor.saved(second));
    assert.deepEqual([{ ...saved, broker: '' }, secrets], [defaults('modelet-runtime'), { token: '' }]);
    const { credentials, ...shared } = ours(await editor.saved(String(broker)));
    assert.deepEqual([shared, credentials], [defaults('modelet-broker'), { username: '', password: '', secret: '' }]);
  });
});

test('a stage saved before its properties existed is valid, and its dialog shows their defaults', async () => {
  await session.inEditor([], async (editor) => {
    const runtime = { id: 'd000000000000001', type: 'modelet-runtime', name: 'r' };
    const old = { type: 'modelet-stage', runtime: runtime.id, code: 'return 1;' };
    await importFlows(editor, [runtime, { ...old, id: 'd000000000000002', x: 300, y: 60, wires: [[]] }]);
    const stage = (await editor.nodes()).find(({ type }) => type === 'modelet-stage');
    assert.ok(stage);
    assert.deepEqual([stage.valid, stage.errors], [true, []]);

    await editor.open(stage.id);
    const form = new Form(editor);
    await form.unfold();
    const { runtime: _runtime, setup: _setup, teardown: _teardown, code: _code, ...others } = defaults('modelet-stage');
    // Not in a field.
    const { libs, requirements, versions, shares, ...shown } = others;
    assert.deepEqual(await form.get(Object.keys(shown)), asShown(shown));
    await editor.ok();
    const { runtime: _, code, ...saved } = ours(await editor.saved(stage.id));
    const lists = ['libs', 'requirements', 'versions', 'shares'].map((name) => saved[name]);
    assert.deepEqual(lists, [libs, requirements, versions, shares]);
    assert.deepEqual(asShown({ ...others, ...saved }), asShown({ ...others, setup: '', teardown: '' }));
    assert.equal(code, old.code);
  });
});

/** Fields hold text, apart from those that are on or off. */
function asShown(values: Readonly<Record<string, unknown>>): Record<string, string | boolean> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, typeof value === 'boolean' ? value : String(value)]),
  );
}
