/** Node-RED started anew does not give requests back to a version that was rolled back before, and keeps states of keys. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import type { FlowNode } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';

const NEW = "if (input.bad) throw new Error('the new one cannot'); return 'new';";

const COUNT = 'ctx.state.n = (ctx.state.n ?? 0) + 1; return ctx.state.n;';

function flows(share: string, settings: Readonly<Record<string, unknown>> = {}): FlowNode[] {
  const versions = { versions: ['new'], shares: [{ share, mode: 'answer' }], rollback: '20' };
  return [
    TAB,
    runtime('runtime', settings),
    ...endpoint('/ask', 'old'),
    stage('old', "return 'old';", 'collector /ask', versions),
    stage('new', NEW, []),
    ...endpoint('/count', 'counts'),
    stage('counts', COUNT, 'collector /count', { keyBy: 'req.headers.x-key', keySnapshotMb: 1 }),
  ];
}

let red: NodeRedProcess;
let file = '';
before(async () => {
  red = await NodeRedProcess.start(flows('50'));
  file = join(red.userDir, 'modelets', 'versions.json');
});
after(() => red.end());

async function ask(body: object = {}, path = '/ask'): Promise<string> {
  const headers = { 'Content-Type': 'application/json', 'X-Key': 'a' };
  return (await fetch(`${red.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })).text();
}

/** The answers to four requests, each once. */
async function answers(): Promise<unknown[]> {
  const found = new Set<unknown>();
  for (let requests = 0; requests < 4; requests += 1) found.add(await ask());
  return [...found].sort();
}

async function act(action: string): Promise<void> {
  const { status } = await fetch(`${red.url}/admin/modelets/stages/new/${action}`, { method: 'POST' });
  assert.equal(status, 204);
}

async function rollBackByFailures(): Promise<void> {
  for (let requests = 0; requests < 60; requests += 1) await ask({ bad: true });
  await until('it is rolled back', () => /rolled back version new: /.test(red.output));
}

/**
 * Ends Node-RED, and starts it again. Returns what it writes to its log. Each time the state of a key goes on after a
 * stop, and begins anew after a kill.
 */
async function restart(signal: NodeJS.Signals): Promise<string> {
  const before = Number(await ask({}, '/count'));
  red.kill(signal);
  await red.exited();
  red.output = '';
  await red.start();
  assert.equal(Number(await ask({}, '/count')), signal === 'SIGTERM' ? before + 1 : 1, `a state after ${signal}`);
  return red.output;
}

const KEPT = /its versions keep the shares that they had before the restart: new answer/;

describe('the live share of a version', () => {
  test('outlives kill -9 of Node-RED after failures, in a private file, and the log says so', async () => {
    await rollBackByFailures();
    await until('it is kept', () => existsSync(file));
    assert.equal(statSync(file).mode & 0o777, 0o600);
    const output = await restart('SIGKILL');
    assert.match(output, KEPT);
    assert.match(output, /new answer 0 % instead of answer 50 % \(too many requests failed\)/);
    assert.deepEqual(await answers(), ['old']);
  });

  test('outlives a runtime that a deploy replaces', async () => {
    await red.deploy(flows('50', { maxQueueMb: '256' }));
    await red.whenReady();
    assert.deepEqual(await answers(), ['old']);
  });

  test('is that of the last action, and none after undo', async () => {
    await act('promote');
    // The action was answered, so it is on the disk.
    assert.match(await restart('SIGKILL'), /new answer 100 % instead of answer 50 % \(on request\)/);
    assert.deepEqual(await answers(), ['new']);
    await act('restore');
    assert.doesNotMatch(await restart('SIGTERM'), KEPT);
    assert.deepEqual(await answers(), ['new', 'old']);
  });

  test('ends with a deploy that changes the list, also over a restart', async () => {
    await act('rollback');
    await red.deploy(flows('100'));
    await until('the log says so', () => /its versions have the shares of the flow: a deploy/.test(red.output));
    await red.whenReady();
    assert.deepEqual(await answers(), ['new']);
    assert.doesNotMatch(await restart('SIGTERM'), KEPT);
    assert.deepEqual(await answers(), ['new']);
  });

  test('is that of the flow if the file is damaged, and the log says so', async () => {
    await act('rollback');
    writeFileSync(file, readFileSync(file, 'utf8').slice(0, 20));
    assert.match(await restart('SIGTERM'), /versions have the shares of the flow: .*versions\.json cannot be read/);
    assert.deepEqual(await answers(), ['new']);
  });
});
