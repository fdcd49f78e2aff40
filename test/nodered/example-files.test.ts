/** The example flows as files: whole, tidy, and in step with the nodes' properties. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { resolveFile } from '../../src/config/paths.ts';
import type { FlowNode } from '../fixtures/node-red.ts';
import { NODE_SCHEMAS } from '../fixtures/node-schemas.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

const folder = join(repositoryRoot, 'examples');
const files = (await readdir(folder)).filter((file) => file.endsWith('.json'));
const flows = await Promise.all(
  files.map(async (file) => JSON.parse(await readFile(join(folder, file), 'utf8')) as FlowNode[]),
);

describe('examples: as files', () => {
  test('every node of the palette is in one of them', () => {
    const used = new Set(flows.flat().map((node) => node.type));
    assert.deepEqual(
      Object.keys(NODE_SCHEMAS).filter((type) => !used.has(type)),
      [],
    );
  });

  test('files of stages are named by the package, so that they are found wherever it is installed', () => {
    for (const { path, type } of flows.flat()) {
      if (type !== 'modelet-stage' || path === '') continue;
      assert.match(String(path), /^@modelet\/node-red-pipeline\/assets\/(modelets|models)\//);
      const now = resolveFile(String(path), '/nowhere');
      const earlier = String(path).replace('/assets/', '/examples/');
      assert.equal(resolveFile(earlier, '/nowhere'), now, 'flows that were imported before name the earlier place');
    }
  });

  test('every id is unique over all examples and looks like one of Node-RED', () => {
    const ids = flows.flat().map((node) => node.id);
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ids) assert.match(id, /^[0-9a-f]{16}$/);
  });

  test('every wire and every reference leads to a node of the same file', () => {
    for (const flow of flows) {
      const ids = new Set(flow.map((node) => node.id));
      for (const node of flow) {
        const references = [
          node['z'],
          node['runtime'],
          node['tls'],
          ...((node['wires'] as string[][] | undefined) ?? []).flat(),
        ];
        for (const id of references)
          if (id !== undefined && id !== '') assert.ok(ids.has(id as string), `${node.type} -> ${id}`);
      }
    }
  });

  test('each has one tab and a comment that explains', () => {
    for (const flow of flows) {
      assert.equal(flow.filter((node) => node.type === 'tab').length, 1);
      const comments = flow.filter((node) => node.type === 'comment');
      assert.ok(comments.length > 0);
      for (const comment of comments) assert.ok(String(comment['info']).length > 80);
    }
  });

  test('pipeline nodes have every property written out, and no other', () => {
    for (const node of flows.flat()) {
      if (!Object.hasOwn(NODE_SCHEMAS, node.type)) continue;
      const { properties } = NODE_SCHEMAS[node.type as keyof typeof NODE_SCHEMAS];
      const own = Object.keys(node).filter((key) => !['id', 'type', 'z', 'x', 'y', 'wires'].includes(key));
      assert.deepEqual(own.sort(), Object.keys(properties).sort(), node.type);
    }
  });
});
