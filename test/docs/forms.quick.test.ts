/** The editor half of each node stands alone: node sets can be disabled one by one. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { NODE_SCHEMAS } from '../fixtures/node-schemas.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

/** By what is attached to the page: the script that attaches it. */
const SCRIPTS: Readonly<Record<string, string>> = {
  clientKeys: 'client-keys.js',
  form: 'form.js',
  defineNode: 'define-node.js',
  gateForm: 'gate-form.js',
  gatePanel: 'gate-panel.js',
  batcherLive: 'batcher-live.js',
  cpus: 'cpu-picker.js',
  codeTabs: 'code-tabs.js',
  modules: 'modules-list.js',
  modelsList: 'models-list.js',
  giveRuntime: 'stage-runtime.js',
  stageFile: 'stage-file.js',
  stageModel: 'stage-model.js',
  fileBrowser: 'file-browser.js',
  showDeployedStage: 'stage-deployed.js',
  dashboardNodes: 'dashboard-nodes.js',
  formTabs: 'form-tabs.js',
  onnxOptions: 'onnx-options.js',
  stageLive: 'stage-live.js',
  stageTest: 'stage-test.js',
  stageMeasure: 'stage-measure.js',
  stageStart: 'stage-start.js',
  stagePackages: 'stage-packages.js',
  stageVersions: 'stage-versions.js',
  taskOptions: 'task-options.js',
};
/** The scripts that a script needs beside it. */
const BESIDE: Readonly<Record<string, readonly string[]>> = {
  'define-node.js': ['form.js'],
  'gate-form.js': ['form.js', 'gate-presets.js'],
  'gate-panel.js': ['form.js', 'sidebar.css', 'sidebar-stage.css', 'gate-live.css'],
  'batcher-live.js': ['form.js'],
  'cpu-picker.js': ['cpu-pins.js'],
  'form-tabs.js': ['form.js', 'form.css'],
  'models-list.js': ['form.js', 'form.css'],
  'stage-model.js': ['form.js', 'stage-file.js'],
  'modules-list.js': ['stage-form.css'],
  'stage-deployed.js': ['form.js', 'stage-file.js'],
  'stage-test.js': ['form.js', 'stage-form.css'],
  'stage-measure.js': ['cpu-picker.js', 'stage-test.js', 'stage-form.css'],
  'stage-versions.js': ['form.js', 'stage-form.css'],
};

for (const type of Object.keys(NODE_SCHEMAS)) {
  test(`${type} loads each script and style that it uses`, () => {
    const html = readFileSync(join(repositoryRoot, 'nodes', `${type}.html`), 'utf8');
    const loaded = [...html.matchAll(/(?:src|href)="resources\/@modelet\/node-red-pipeline\/([^"]+)"/g)].map(
      ([, name]) => name as string,
    );
    const used = new Set(
      [...html.matchAll(/window\.modelet\.(\w+)/g)].map(([, name]) => SCRIPTS[name as string] ?? name),
    );
    const needed = [...used].flatMap((script) => [script, ...(BESIDE[script as string] ?? [])]);
    assert.deepEqual([...new Set([...needed, 'form.css'])].sort(), [...new Set(loaded)].sort());
  });
}
