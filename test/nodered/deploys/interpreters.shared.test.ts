/** A Python that no worker can run is told of when the stage is deployed, and so is whether it is there at all. */
import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const red = useNodeRed({
  prepare: async (red) => {
    await writeFile(join(red.userDir, 'model.py'), 'def predict(value):\n    return {"got": value}\n');
    await mkdir(join(red.userDir, 'closed'));
    await writeFile(join(red.userDir, 'closed', 'python3'), '#!/bin/sh\n');
    await chmod(join(red.userDir, 'closed', 'python3'), 0o644);
    await mkdir(join(red.userDir, 'empty'));
  },
});

async function deploy(properties: object): Promise<void> {
  const python = { source: 'python', path: 'model.py', ...properties };
  // An interpreter that served before would go on.
  await red.deploy([TAB]);
  await red.deploy([TAB, runtime(), stage('model', '', 'collector /use', python), ...endpoint('/use', 'model')]);
}

const CASES: readonly (readonly [string, () => object, RegExp])[] = [
  [
    'a name that is not in PATH',
    () => ({ python: 'python-of-nobody' }),
    /Interpreter: no Python called python-of-nobody in PATH/,
  ],
  ['none in the PATH of the workers', () => ({ env: pathOf('empty') }), /Interpreter: no Python found: looked for/],
  [
    'none in the PATH of one worker',
    () => ({ workers: '2', env: `[{}, ${pathOf('empty')}]` }),
    /Interpreter: no Python found: looked for/,
  ],
  [
    'one in PATH that may not be run',
    () => ({ env: pathOf('closed') }),
    /Interpreter: no permission to run the Python at .*python3/,
  ],
  [
    'a path to an interpreter without permission to run',
    () => ({ python: join(red.userDir, 'closed', 'python3') }),
    /Interpreter: no permission to run the Python at .*python3/,
  ],
];

function pathOf(folder: string): string {
  return JSON.stringify({ PATH: join(red.userDir, folder) });
}

describe('a stage in Python is config_invalid at deploy, on its badge too, with', () => {
  for (const [what, properties, cause] of CASES) {
    test(what, async () => {
      await deploy(properties());
      assert.match((await red.snapshot()).invalid['model'] ?? 'it can be used', cause);
      await until('the badge is red', () => red.badges.get('model')?.fill === 'red');
      assert.match(red.badges.get('model')?.text ?? '', /Interpreter: no /);
      const { error } = (await (await red.post('/use', {})).json()) as { error: { code: string } };
      assert.equal(error.code, 'config_invalid');
    });
  }
});

describe('a stage in Python is served', { skip: WITHOUT_PYTHON }, () => {
  test('if one interpreter in PATH may not be run and a later one may', async () => {
    const env = { PATH: [join(red.userDir, 'closed'), process.env['PATH']].join(':') };
    await deploy({ env: JSON.stringify(env) });
    await red.whenReady();
    assert.deepEqual(await (await red.post('/use', { a: 1 })).json(), { got: { a: 1 } });
  });

  for (const predict of ['item', 'batch']) {
    test(`by the class that its dialog offers to start with, called per ${predict}`, async () => {
      await deploy({ predict, path: join(repositoryRoot, 'resources', 'start', `${predict}.py`) });
      await red.whenReady();
      assert.deepEqual(await (await red.post('/use', { a: 1 })).json(), { a: 1 });
    });
  }

  test('if only the PATH of its workers has its interpreter', async () => {
    await mkdir(join(red.userDir, 'own'));
    await writeFile(join(red.userDir, 'own', 'snake'), `#!/bin/sh\nPATH='${process.env['PATH']}' exec python3 "$@"\n`);
    await chmod(join(red.userDir, 'own', 'snake'), 0o755);
    await deploy({ python: 'snake', env: pathOf('own') });
    await red.whenReady();
    assert.deepEqual(await (await red.post('/use', { a: 1 })).json(), { got: { a: 1 } });
  });
});
