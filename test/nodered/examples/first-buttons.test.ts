/**
 * The first button of each example works in a Node-RED on a random port, whose HTTP-in nodes have their own root: the
 * examples are deployed as they are shipped, and ask themselves where they run.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer as createSecureServer } from 'node:https';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { nameOwnAddress } from '../../../src/node-red/admin/own-address.ts';
import { linkModule } from '../../fixtures/link-module.ts';
import { MockGateway } from '../../fixtures/mock-gateway.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { NO_SQLITE } from '../../store/bed.ts';

const ROOT = '/models/v1';

/** The node that shows the result, and the result. Prometheus and worker hosts are for tests that have them. */
const RESULTS: Readonly<Record<string, readonly [node: string, result: RegExp]>> = {
  'A blocking function node beside a stage': ['from the function node', /"primes":\d{4}/],
  'Asynchronous endpoint': ['done', /^\{"words":6\}$/],
  'Batched against sequential': ['the two times', /./],
  'Canary and shadow of a stage': ['count', /"by":"model [12]"/],
  'Chat completions of a remote model': ['answers', /"answer":"\w/],
  'Continuous batching of a toy model': ['the two times', /./],
  'Dashboard of a pipeline': ['digit', /"digit":7/],
  'Digits by ONNX': ['digit', /"label":"7"/],
  'Digits in Python': ['digit', /"digit":7/],
  'Dispatch gate before an inference server': ['answers', /"200":\d/],
  'Dispatch gate for batch work': ['count', /"digit":7/],
  'Ensemble of two models': ['results', /"linear"/],
  'Errors to the catch output': ['results', /^4$/],
  'Images by ONNX': ['digit', /"label":"7"/],
  'Newest frame of four cameras': ['frames that were run', /./],
  'One of two models': ['results', /"by":"short"/],
  'Quick start - handwritten digits': ['digit', /"digit":7/],
  'Read the words of a picture': ['results', /"result":"EACH"/],
  'Score a file line by line': ['the whole file', /./],
  'Three stages with CPU pins': ['result', /43/],
  'Tokens as server-sent events': ['words', /./],
};

const MISSING = [NO_SQLITE && 'Asynchronous endpoint', WITHOUT_PYTHON && 'Digits in Python'];
const TITLES = Object.keys(RESULTS).filter((title) => !MISSING.includes(title));

describe('examples: the first button', () => {
  let gateway: MockGateway;
  const flows = new Map<string, FlowNode[]>();
  // All side by side: each deploy would take as long as that of all.
  const nodeRed = useNodeRed({
    settings: { httpNodeRoot: ROOT },
    prepare: async ({ userDir }) => {
      await linkModule(userDir, 'jpeg-js');
      gateway = await MockGateway.start({ 'token-ms': 1 });
      for (const title of TITLES) flows.set(title, read(title, gateway.url));
    },
    flows: () => [...flows.values()].flat(),
  });
  before(() => nodeRed.whenReady());
  after(() => gateway.stop());

  for (const title of TITLES) {
    test(`of "${title}" shows its result`, async () => {
      const flow = flows.get(title) ?? [];
      const [name, result] = RESULTS[title] ?? ['', /./];
      const shows = flow.find(
        (node) => node['name'] === name && node['z'] !== undefined && !node.type.startsWith('link '),
      );
      const buttons = flow.filter(({ type, repeat }) => type === 'inject' && repeat === '');
      const [first] = buttons.toSorted((a, b) => Number(a['y']) - Number(b['y']) || Number(a['x']) - Number(b['x']));
      assert.ok(shows && first, title);
      const shown = nodeRed.inputs(shows.id);
      await nodeRed.press(first.id);
      const { payload, error } = await until(`${name} has it`, () => shown[0]);
      assert.match(JSON.stringify(payload), result, error && JSON.stringify(error));
    });
  }
});

/** Returns an example with the address of a gateway that runs, and without the nodes of a package that is not installed. */
function read(title: string, gateway: string): FlowNode[] {
  const text = readFileSync(join(repositoryRoot, 'examples', `${title}.json`), 'utf8');
  const flow = JSON.parse(text.replaceAll('http://127.0.0.1:8000', gateway)) as FlowNode[];
  return flow.filter(({ type }) => !type.startsWith('ui-') && type !== 'global-config');
}

describe('the address in MODELET_URL', () => {
  const cases = [
    ['127.0.0.1', createServer(), '/', /^http:\/\/127\.0\.0\.1:\d+$/],
    ['0.0.0.0', createSecureServer(), '/models/', /^https:\/\/127\.0\.0\.1:\d+\/models$/],
  ] as const;
  for (const [host, server, httpNodeRoot, address] of cases) {
    test(`is ${address.source} on ${host} below ${httpNodeRoot}`, async () => {
      delete process.env['MODELET_URL'];
      nameOwnAddress({ server, settings: { httpNodeRoot } } as never);
      server.listen(0, host);
      await until('it is known', () => process.env['MODELET_URL']);
      assert.match(process.env['MODELET_URL'] ?? '', address);
      server.close();
    });
  }
});
