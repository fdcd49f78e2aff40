/** Text that a shell would act on: in pins it is refused, in paths it is part of the file's name. No shell ever sees it. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';

/** The file that a shell would leave behind if it read this text. */
const MARK = 'marked';
const TEXTS = [
  `0; touch ${MARK}`,
  `$(touch ${MARK})`,
  `\`touch ${MARK}\``,
  `0\ntouch ${MARK}`,
  `0 & touch ${MARK} #`,
  `0 | touch ${MARK}`,
  `'; touch ${MARK}; '`,
  `"; touch ${MARK}; "`,
  `--pid 1`,
];

/** All processes of this test have their temporary files here. */
const temporary = mkdtempSync(join(tmpdir(), 'modelet-shell-'));
const folders = [temporary, process.cwd()];
process.env['TMPDIR'] = temporary;
const nodeRed = useNodeRed({ prepare: (nodeRed) => folders.push(nodeRed.userDir) });
after(() => rmSync(temporary, { recursive: true, force: true }));

function assertUnmarked(): void {
  for (const folder of folders) assert.ok(!readdirSync(folder).includes(MARK), `a shell has been in ${folder}`);
}

async function errorOf(response: Response): Promise<{ code: string; message: string }> {
  return ((await response.json()) as { error: { code: string; message: string } }).error;
}

function flow(node: FlowNode, properties: object = {}): FlowNode[] {
  return [TAB, runtime('runtime', { ...properties }), ...endpoint('/use', 'use'), node];
}

describe('text for a shell', () => {
  for (const text of TEXTS) {
    test(`${JSON.stringify(text)} as pins of a stage, and of the runtime: config_invalid`, async () => {
      const pinned = flow(stage('use', 'return input;', 'collector /use', { cpus: text }));
      const engine = flow(stage('use', 'return input;', 'collector /use'), { engineCpus: text });
      const server = flow(stage('use', 'return input;', 'collector /use'), { serverCpus: text });
      for (const flows of [pinned, engine, server]) {
        await nodeRed.deploy(flows);
        const { code } = await errorOf(await nodeRed.post('/use', {}));
        assert.equal(code, 'config_invalid');
      }
      assertUnmarked();
    });
  }

  for (const text of TEXTS) {
    test(`${JSON.stringify(text)} stays as written in a path, a folder, a name and a variable`, async () => {
      const folder = join(nodeRed.userDir, text.replaceAll('/', ''));
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, `${text}.cjs`), 'module.exports = () => process.env.TEXT;');
      const properties = {
        name: `a ${text}`,
        source: 'file',
        path: join(folder, `${text}.cjs`),
        env: JSON.stringify({ TEXT: text }),
      };
      // A stage that is only changed would be served by its old workers at first.
      await nodeRed.deploy([TAB]);
      await nodeRed.deployReady(flow(stage('use', '', 'collector /use', properties)));
      assert.equal(await (await nodeRed.post('/use', {})).text(), text);
      assertUnmarked();
    });
  }
});
