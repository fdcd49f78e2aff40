/** The README's tables say what the code does: properties with their defaults, error codes with their status. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { NODE_SCHEMAS, type NodeType } from '../../src/config/schema.ts';
import { HTTP_STATUS } from '../../src/core/errors.ts';
import { METRICS } from '../../src/observe/export/metrics.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

const readme = readFileSync(join(repositoryRoot, 'README.md'), 'utf8');

/** Rows of the table whose head starts with `head`, cells trimmed. */
function table(head: string): string[][] {
  const lines = readme.split('\n');
  const start = lines.findIndex((line) => line.startsWith(`| ${head} |`));
  assert.ok(start >= 0, `no table headed ${head}`);
  const end = lines.findIndex((line, index) => index > start && !line.startsWith('|'));
  return lines.slice(start + 2, end).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

for (const type of Object.keys(NODE_SCHEMAS) as NodeType[]) {
  test(`the table of ${type} has every property with its default`, () => {
    const described = Object.fromEntries(
      table(`\`${type}\` | default`).map(([name, value]) => [name?.replaceAll('`', ''), value]),
    );
    const expected = Object.entries(NODE_SCHEMAS[type].properties).map(([name, property]) => [
      name,
      property.type === 'array' ? JSON.stringify(property.default) : String(property.default),
    ]);
    assert.deepEqual(described, Object.fromEntries(expected));
  });
}

test('the table of errors has every code with its HTTP status', () => {
  const described = Object.fromEntries(
    table('code').map(([code, status]) => [code?.replaceAll('`', ''), Number(status)]),
  );
  assert.deepEqual(described, HTTP_STATUS);
});

test('the table of metrics has every metric with its type and labels', () => {
  const described = table('metric').map(([name = '', type, labels = '']) => ({
    name: name.replaceAll('`', ''),
    type,
    labels: labels.split(', ').filter((label) => label !== ''),
  }));
  assert.deepEqual(
    described,
    METRICS.map(({ name, type, labels }) => ({ name, type, labels })),
  );
});

test('every node is in the table of nodes', () => {
  assert.deepEqual(
    table('node')
      .map(([name]) => name?.replaceAll('`', ''))
      .sort(),
    Object.keys(NODE_SCHEMAS).sort(),
  );
});
