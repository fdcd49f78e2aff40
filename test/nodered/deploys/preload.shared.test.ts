/** A stage in Python whose workers share what one process has loaded is deployed, served, redeployed and removed. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';

const CODE = `
import os
class Model:
    @classmethod
    def preload(cls, init):
        cls.loaded = [init["word"], os.getpid()]
    def predict(self, value):
        return [*self.loaded, os.getppid()]
`;

type Told = readonly [word: string, loadedBy: number, parent: number];

const red = useNodeRed({
  prepare: async (red) => {
    await writeFile(join(red.userDir, 'shares.py'), CODE);
  },
});

async function deploy(word: string): Promise<void> {
  const python = { source: 'python', path: 'shares.py', workers: '2', preload: true, init: JSON.stringify({ word }) };
  await red.deploy([TAB, runtime(), stage('model', '', 'collector /use', python), ...endpoint('/use', 'model')]);
}

async function ask(): Promise<Told> {
  const response = await red.post('/use', {});
  assert.equal(response.status, 200);
  return (await response.json()) as Told;
}

describe('a stage that preloads once', { skip: WITHOUT_PYTHON }, () => {
  test('answers from workers that were forked, and leaves nothing when it goes', async () => {
    await deploy('old');
    await red.whenReady();
    const [word, loadedBy, parent] = await ask();
    assert.deepEqual([word, loadedBy], ['old', parent]);
    await deploy('new');
    await until('the new workers answer', async () => (await ask())[0] === 'new');
    await until('the old template has ended', () => !isAlive(loadedBy));
    const [, present] = await ask();
    await red.deploy([TAB]);
    await until('the new one has ended', () => !isAlive(present));
  });
});
