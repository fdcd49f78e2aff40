/** Children inherit some options of Node-RED's own process, and not others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inheritedEnvironment, withoutInspector } from '../../src/process/node-options.ts';

const CASES: readonly (readonly [string, string])[] = [
  ['', ''],
  ['--inspect', ''],
  ['--inspect=0.0.0.0:9229 --max-old-space-size=64', '--max-old-space-size=64'],
  ['--inspect-brk --inspect-wait=1 --inspect-publish-uid=stderr,http', ''],
  ['--inspect-port 9300 --enable-source-maps', '--enable-source-maps'],
  ['--inspect-port=9300 --enable-source-maps', '--enable-source-maps'],
  ['--debug-port 9300 --inspect_brk', ''],
  ['--enable-source-maps --inspect-publish-uid stderr', '--enable-source-maps'],
  ['--require "/a folder/--inspect file.js" --inspect', '--require "/a folder/--inspect file.js"'],
  ['--title="say \\" --inspect"  --trace-warnings', '--title="say \\" --inspect"  --trace-warnings'],
  ['"--inspect-brk=9229" --no-warnings', '--no-warnings'],
];

test('children inherit the options of Node.js except those of the debugger', () => {
  for (const [options, inherited] of CASES) assert.equal(withoutInspector(options), inherited, options);
});

test('children inherit all other variables, and NODE_OPTIONS only if an option is left', () => {
  assert.deepEqual(inheritedEnvironment({ A: '1', NODE_OPTIONS: '--inspect' }), { A: '1' });
  assert.deepEqual(inheritedEnvironment({ A: '1', NODE_OPTIONS: '--inspect --no-warnings' }), {
    A: '1',
    NODE_OPTIONS: '--no-warnings',
  });
});
