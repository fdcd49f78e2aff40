/** The command `measure` on real workers: what it prints, and what it says of a stage that it cannot measure. */
import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { compileStage } from '../../../src/config/compile-stage.ts';
import { compileFlows, type HeadlessFlows } from '../../../src/headless/compile-flows.ts';
import { readFlows } from '../../../src/headless/flow-file.ts';
import { measure } from '../../../src/headless/measure.ts';
import { allowedCpus } from '../../../src/process/affinity.ts';
import { probeLauncher } from '../../../src/process/parent/launch.ts';
import { measureStage } from '../../../src/runtime/service/trial/measure.ts';
import { encodeInput } from '../../../src/runtime/service/trial/trial.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

function flows(): HeadlessFlows {
  const file = join(mkdtempSync(join(tmpdir(), 'modelet-measure-')), 'flows.json');
  const stage = { type: 'modelet-stage', z: 'tab', runtime: 'r', predict: 'batch', wires: [[]] };
  const nodes = [
    { id: 'tab', type: 'tab' },
    { id: 'r', type: 'modelet-runtime' },
    { id: 'b', type: 'modelet-batcher', z: 'tab', maxBatchSize: '4', wires: [['s']] },
    { ...stage, id: 's', name: 'double', inputSchema: '{"type": "number"}', code: 'return input.map((x) => 2 * x)' },
    { ...stage, id: 't', name: 'unknown', code: 'return input' },
    { ...stage, id: 'u', name: 'fails', inputSchema: '{"type": "number"}', code: 'throw new Error("no model")' },
  ];
  writeFileSync(file, JSON.stringify(nodes));
  return compileFlows(readFlows(file));
}

test('measure prints what runs cost and a proposal, and says of a stage why it cannot run', async () => {
  const cpus = allowedCpus();
  const machine = { allowedCpus: cpus, launcher: await probeLauncher(cpus) };
  const printed: string[] = [];
  const print = (text: string): void => void printed.push(text);
  assert.equal(await measure(flows(), { stage: null, rate: 50, goalMs: null }, machine, print), false);
  const [double = '', ...others] = printed;
  assert.match(double, /^double: a run takes [\d.]+ ms, and [\d.]+ ms per item:\n +BATCH +RUN MS +MS PER ITEM\n/);
  assert.match(
    double,
    /\n +1 .*\n +2 .*\n +4 .*\n\nAt 50 items\/s, where \* is proposed:\n(.*\n)* +\* +\d+ +\d+ +(greedy|oldest) /,
  );
  assert.deepEqual(others, ['unknown: the modelet has no example: give an input\n', 'fails: no model\n']);
});

test('a worker that may have several runs at the same time is measured with so many', async () => {
  const cpus = allowedCpus();
  const machine = { allowedCpus: cpus, launcher: await probeLauncher(cpus) };
  const code = 'await new Promise((done) => setTimeout(done, 200)); return input;';
  const raw = { name: 'waits', runtime: 'r', source: 'inline', code, concurrency: '8' };
  const modelet = { ...compileStage(raw, (file) => file), requireFrom: repositoryRoot };
  const spec = { stage: 'waits', modelet, input: encodeInput(1), maxBatchSize: 1, maxWorkers: 1 };
  const { concurrency, slowdowns } = await measureStage(spec, machine);
  assert.equal(concurrency, 8);
  assert.equal(slowdowns.length, 1);
  assert.ok((slowdowns[0] ?? 0) < 4, `one after the other, they would take 8 times as long, and not ${slowdowns}`);
});
