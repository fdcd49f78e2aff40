/** New nodes are as the schema says: the same properties, at the same defaults. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NODE_SCHEMAS, type NodeType } from '../../src/config/schema.ts';
import { exportAll } from './clipboard.ts';
import { ours } from './editor-page.ts';
import { startSession } from './session.ts';

const session = startSession();

const TYPES = Object.keys(NODE_SCHEMAS) as NodeType[];

function defaults(type: NodeType): Record<string, unknown> {
  const { properties } = NODE_SCHEMAS[type];
  return Object.fromEntries(Object.entries(properties).map(([name, { default: value }]) => [name, value]));
}

test('new nodes are exported with every property of the schema, at its default', async () => {
  await session.inEditor([], async (editor) => {
    for (const [index, type] of TYPES.entries()) {
      // The first stage brings it along.
      if (type !== 'modelet-runtime') await editor.dragFromPalette(type, 400, 60 + 60 * index);
    }
    const exported = await exportAll(editor);
    const runtime = exported.find(({ type }) => type === 'modelet-runtime');
    const given: Partial<Record<NodeType, object>> = {
      'modelet-runtime': { name: 'default' },
      'modelet-stage': { runtime: runtime?.id },
    };
    for (const type of TYPES) {
      const node = exported.find((candidate) => candidate.type === type);
      assert.ok(node, type);
      const actual = ours(node);
      // In the editor, a comment above the code explains it.
      if (type === 'modelet-stage') actual['code'] = String(actual['code']).replace(/^\/\/.*\n/, '');
      assert.deepEqual(actual, { ...defaults(type), ...given[type] }, type);
    }
  });
});

test('a runtime made in its dialog has every property at its default as well', async () => {
  await session.inEditor([], async (editor) => {
    const stage = await editor.dragFromPalette('modelet-stage', 400, 100);
    const first = (await editor.saved(stage))['runtime'];
    await editor.open(stage);
    await editor.openConfig('runtime', 'add');
    await editor.ok();
    await editor.ok();
    const second = String((await editor.saved(stage))['runtime']);
    assert.notEqual(second, first);
    assert.deepEqual(ours(await editor.saved(second)), defaults('modelet-runtime'));
  });
});
