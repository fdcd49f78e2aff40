/** A flow with all that the sidebar "modelets" shows, and requests for it. */
import assert from 'node:assert/strict';
import type { RuntimeSnapshot, StageSnapshot } from '../../src/observe/views/snapshot.ts';
import { READY } from '../fixtures/badges.ts';
import { batcher, endpoint, httpIn, runtime, stage, TAB } from '../fixtures/flow.ts';
import type { EditorPage } from './editor-page.ts';
import { sharedSession } from './session.ts';

const session = sharedSession();

export const HOSTILE = '<img src="x" onerror="window.pwned = 1">';
export const FLOWS = [
  TAB,
  { ...runtime(), name: HOSTILE },
  ...endpoint('/sums', 'first'),
  { ...httpIn('asks', '/asks', 'first'), method: 'get' },
  stage('first', 'return input;', 'batch', { workers: '2', cpus: '0', y: 200 }),
  batcher('batch', 'second', { maxBatchSize: 8, policy: 'oldest', maxWaitMs: 20, y: 300 }),
  stage('second', 'return input.map((one) => one.n + 1);', 'collector /sums', {
    predict: 'batch',
    name: HOSTILE,
    y: 400,
  }),
  { id: 'box', type: 'subflow', name: 'box', in: [], out: [] },
  { ...stage('within', 'return 1;', []), z: 'box' },
  { id: 'instance', type: 'subflow:box', z: 'tab', x: 100, y: 600, wires: [] },
  stage('broken', 'return 1;', [], { setup: `throw new Error('${HOSTILE}');`, y: 500 }),
];

export async function stageNow(id: string): Promise<StageSnapshot> {
  const response = await fetch(`${session.nodeRed.editorUrl}modelets/snapshot`);
  const { runtimes } = (await response.json()) as { runtimes: RuntimeSnapshot[] };
  const found = runtimes.flatMap(({ stages }) => stages).find((one) => one.id === id);
  assert.ok(found, `stage ${id} runs`);
  return found;
}

/** Keeps requests coming while `work` looks; each must be answered rightly. */
export async function underLoad(work: () => Promise<void>): Promise<void> {
  let isOver = false;
  const ask = async (): Promise<void> => {
    for (let n = 0; !isOver; n += 1) {
      const response = await session.nodeRed.post('/sums', { n });
      assert.equal(await response.json(), n + 1);
    }
  };
  const load = Promise.all(Array.from({ length: 4 }, ask));
  try {
    await work();
  } finally {
    isOver = true;
    await load;
  }
}

export async function whenReady(editor: EditorPage): Promise<void> {
  await editor.waitForBadge('first', READY);
  await editor.waitForBadge('second', READY);
}
