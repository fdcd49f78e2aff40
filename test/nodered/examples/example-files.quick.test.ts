/** The example flows as files: whole, tidy, and in step with the nodes' properties. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { resolveFile } from '../../../src/config/files/paths.ts';
import type { FlowNode } from '../../fixtures/node-red.ts';
import { NODE_SCHEMAS } from '../../fixtures/node-schemas.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const WIDEST = 900;

const folder = join(repositoryRoot, 'examples');
const files = (await readdir(folder)).filter((file) => file.endsWith('.json'));
const flows = await Promise.all(
  files.map(async (file) => JSON.parse(await readFile(join(folder, file), 'utf8')) as FlowNode[]),
);

describe('examples: as files', () => {
  test('every node of the palette is in an example', () => {
    // A broker needs a server that an example cannot bring along, and a public key protects nothing.
    const used = new Set(['modelet-broker', 'modelet-keys', ...flows.flat().map((node) => node.type)]);
    assert.deepEqual(
      Object.keys(NODE_SCHEMAS).filter((type) => !used.has(type)),
      [],
    );
  });

  test('stages name their files by the package, so that any installation finds them', () => {
    for (const { path, type } of flows.flat()) {
      if (type !== 'modelet-stage' || path === '') continue;
      assert.match(String(path), /^@modelet\/node-red-pipeline\/assets\/(modelets|models)\//);
      const now = resolveFile(String(path), '/nowhere');
      const earlier = String(path).replace('/assets/', '/examples/');
      assert.equal(resolveFile(earlier, '/nowhere'), now, 'flows that were imported before name the earlier place');
    }
  });

  test('every id is unique over all examples and has the form of Node-RED', () => {
    const ids = flows.flat().map((node) => node.id);
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ids) assert.match(id, /^[0-9a-f]{16}$/);
  });

  test('no code, address or text contains an id, because a copy has other ids', () => {
    for (const flow of flows) {
      const ids = flow.map((node) => node.id);
      // In these the editor writes the ids of the copy.
      const isReference = (name: string, value: unknown): boolean =>
        ['wires', 'nodes', 'scope', 'versions', 'links'].includes(name) || ids.includes(String(value));
      for (const node of flow) {
        for (const [name, value] of Object.entries(node)) {
          if (isReference(name, value)) continue;
          const text = JSON.stringify(value);
          assert.ok(!ids.some((id) => text.includes(id)), `${node.type} ${node.id}: ${name}`);
        }
      }
    }
  });

  test('no example names a path that exists only in a clone of the repository or on one machine', () => {
    for (const node of flows.flat()) {
      const text = JSON.stringify(node);
      assert.doesNotMatch(text, /(?<!@modelet\/node-red-pipeline\/)\b(?:assets|scripts)\/\w/, node.id);
      assert.doesNotMatch(text, /"(?:file:|\/(?:home|root|usr|tmp|etc|opt)\/|[A-Z]:\\)/, node.id);
    }
  });

  test('every wire and every reference leads to a node of the same file', () => {
    for (const flow of flows) {
      const ids = new Set(flow.map((node) => node.id));
      for (const node of flow) {
        const references = [
          node['z'],
          node['g'],
          ...((node['nodes'] as string[] | undefined) ?? []),
          node['runtime'],
          node['tls'],
          ...((node['wires'] as string[][] | undefined) ?? []).flat(),
        ];
        for (const id of references)
          if (id !== undefined && id !== '') assert.ok(ids.has(id as string), `${node.type} -> ${id}`);
      }
    }
  });

  test('each example has one tab, and begins with a comment that says what it needs and what to press', () => {
    for (const [at, flow] of flows.entries()) {
      assert.equal(flow.filter((node) => node.type === 'tab').length, 1);
      const comments = flow.filter((node) => node.type === 'comment');
      for (const comment of comments) assert.ok(String(comment['info']).length > 80);
      const [first] = comments.toSorted((a, b) => Number(a['y']) - Number(b['y']));
      const drawn = flow.filter(({ type, y }) => type !== 'comment' && y !== undefined);
      assert.ok(
        drawn.every(({ y }) => Number(y) > Number(first?.['y'])),
        files[at],
      );
      assert.match(String(first?.['info']), /^Needs /, files[at]);
      assert.match(`${first?.['name']} ${first?.['info']}`, /press|curl/i, files[at]);
    }
  });

  test('each example that serves HTTP has a curl line to copy', () => {
    for (const [at, flow] of flows.entries()) {
      if (!flow.some(({ type }) => type === 'http in')) continue;
      const texts = flow.filter(({ type }) => type === 'comment').map((comment) => String(comment['info']));
      assert.ok(
        texts.some((text) => /^ {4}curl /m.test(text)),
        files[at],
      );
    }
  });

  test('each example is at most 900 pixels wide, and every node but comments is in a group with a title', () => {
    for (const [at, flow] of flows.entries()) {
      const groups = flow.filter(({ type }) => type === 'group');
      const left = Math.min(...groups.map(({ x }) => Number(x)));
      const right = Math.max(...groups.map(({ x, w }) => Number(x) + Number(w)));
      assert.ok(left >= 0 && right - left <= WIDEST, `${files[at]}: from ${left} to ${right}`);
      assert.ok(
        groups.every(({ name }) => typeof name === 'string' && name.length > 0),
        files[at],
      );
      for (const { id, type, g, x, y } of flow) {
        if (x === undefined || type === 'comment' || type === 'group') continue;
        const group = groups.find((candidate) => candidate.id === g);
        assert.ok(group && (group['nodes'] as string[]).includes(id), `${files[at]}: ${type} ${id}`);
        const [across, down] = [Number(x) - Number(group['x']), Number(y) - Number(group['y'])];
        assert.ok(
          across > 0 && across < Number(group['w']) && down > 0 && down < Number(group['h']),
          `${files[at]}: ${id}`,
        );
      }
    }
  });

  test('pipeline nodes have every property written out, and no other', () => {
    for (const node of flows.flat()) {
      if (!Object.hasOwn(NODE_SCHEMAS, node.type)) continue;
      const { properties } = NODE_SCHEMAS[node.type as keyof typeof NODE_SCHEMAS];
      const own = Object.keys(node).filter((key) => !['id', 'type', 'z', 'g', 'x', 'y', 'wires'].includes(key));
      assert.deepEqual(own.sort(), Object.keys(properties).sort(), node.type);
    }
  });
});
