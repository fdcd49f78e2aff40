/** The button of the stage dialog installs what a model needs: by npm from a registry, and by pip into a virtual environment. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { compileFlows } from '../../src/headless/compile-flows.ts';
import { readFlows } from '../../src/headless/flow-file.ts';
import { install as installAll } from '../../src/headless/install.ts';
import { Log, recordsTo } from '../../src/observe/log/log.ts';
import { whyNoNativeBuild } from '../../src/process/native-builds.ts';
import { checkInterpreter } from '../../src/process/python.ts';
import { type Installation, Installer, type InstallPlan } from '../../src/runtime/service/install/installation.ts';
import { installedVersion, NPM_PACKAGES, planNpm } from '../../src/runtime/service/install/npm-packages.ts';
import { lookAtPython, planPython, planRequirements } from '../../src/runtime/service/install/python-packages.ts';
import { isAlive } from '../fixtures/alive.ts';
import { until } from '../fixtures/polling.ts';
import { makeWheel, WITHOUT_PYTHON } from '../fixtures/python.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-install-'));
const environment = { ...process.env };
after(() => {
  process.env = environment;
  rmSync(folder, { recursive: true, force: true });
});

async function install(plan: InstallPlan, installer: Installer = new Installer()): Promise<Installation> {
  assert.deepEqual(installer.installation, { state: 'none' });
  assert.equal(installer.start(plan), true);
  assert.equal(installer.installation.state, 'running');
  assert.equal(installer.start(plan), false, 'one at a time');
  return until('it has ended', () => installer.installation.state !== 'running' && installer.installation);
}

describe('onnxruntime-node', () => {
  const userDir = join(folder, 'user');
  let registry: Server;
  before(async () => {
    mkdirSync(join(folder, 'package'));
    mkdirSync(userDir);
    const manifest = { name: 'onnxruntime-node', version: '1.30.0', scripts: { postinstall: 'exit 1' } };
    writeFileSync(join(folder, 'package', 'package.json'), JSON.stringify(manifest));
    execFileSync('tar', ['czf', join(folder, 'package.tgz'), '-C', folder, 'package']);
    registry = createServer((request, response) => {
      if (request.url?.endsWith('.tgz')) response.end(readFileSync(join(folder, 'package.tgz')));
      else {
        const tarball = `http://${request.headers.host}/package.tgz`;
        const versions = { [manifest.version]: { ...manifest, dist: { tarball } } };
        response.setHeader('Content-Type', 'application/json');
        response.end(JSON.stringify({ name: manifest.name, 'dist-tags': { latest: manifest.version }, versions }));
      }
    });
    await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve));
    process.env['npm_config_cache'] = join(folder, 'cache');
    process.env['npm_config_noproxy'] = '127.0.0.1';
    process.env['npm_config_registry'] = `http://127.0.0.1:${(registry.address() as AddressInfo).port}/`;
  });
  after(() => registry.close());

  test('suits a Linux with the C library of GNU, such as this one, and neither Alpine nor 32-bit ARM', () => {
    assert.deepEqual([whyNoNativeBuild(), whyNoNativeBuild('darwin', 'arm64', null)], [null, null]);
    assert.match(whyNoNativeBuild('linux', 'x64', null) ?? '', /^This system has musl \(Alpine\)/);
    assert.match(whyNoNativeBuild('linux', 'arm', '2.36') ?? '', /^The processor of this system is arm, /);
    assert.match(whyNoNativeBuild('freebsd', 'x64', null) ?? '', /^Native packages are not for freebsd$/);
  });

  test('a stage in Python is refused on Windows at its deploy, and other stages are not', () => {
    const python = { source: { kind: 'python', path: '/model.py', python: process.execPath }, workers: [] } as const;
    const file = { source: { kind: 'file', path: '/model.js' }, workers: [] } as const;
    assert.throws(() => checkInterpreter(folder, python, 'win32'), {
      ...{ code: 'config_invalid' },
      message: /^python: stages in Python do not run on Windows, .* run Node-RED in WSL or in a container, /,
    });
    checkInterpreter(folder, python);
    checkInterpreter(folder, file, 'win32');
  });

  test('is found after npm has installed it into the user directory, and noted there, without its scripts', async () => {
    assert.equal(installedVersion('onnxruntime-node', [userDir]), null);
    const plan = planNpm([NPM_PACKAGES.onnx], userDir, join(repositoryRoot, 'dist', 'x.js'));
    assert.ok(plan);
    assert.deepEqual(await install(plan), { state: 'done', what: 'onnxruntime-node' });
    assert.equal(installedVersion('onnxruntime-node', [userDir]), '1.30.0');
    const { dependencies } = JSON.parse(readFileSync(join(userDir, 'package.json'), 'utf8')) as {
      dependencies: object;
    };
    assert.deepEqual(dependencies, { 'onnxruntime-node': '~1.30.0' });
  });

  test('is not installed where no registry answers, and the installation says so', async () => {
    const plan = planNpm([NPM_PACKAGES.onnx], join(folder, 'offline'), join(repositoryRoot, 'dist', 'x.js'));
    assert.ok(plan);
    process.env['npm_config_registry'] = 'http://127.0.0.1:1/';
    process.env['npm_config_cache'] = join(folder, 'empty-cache');
    const ended = await install(plan);
    assert.ok(ended.state === 'failed', ended.state);
    assert.equal(ended.code, 'offline');
    assert.match(ended.output, /ECONNREFUSED/);
  });
});

describe('packages of a Python file', { skip: WITHOUT_PYTHON }, () => {
  const userDir = join(folder, 'python');
  const path = join(userDir, 'model.py');
  before(() => {
    mkdirSync(userDir);
    // A package of the well-known names that no machine for tests has, and an unknown one.
    writeFileSync(
      path,
      'import json\nimport lightgbm\nfrom nobody.knows import it\ntry:\n    import absent\nexcept ImportError:\n    pass\n',
    );
    makeWheel(folder, 'lightgbm');
    process.env['PIP_NO_INDEX'] = '1';
    process.env['PIP_FIND_LINKS'] = folder;
  });

  test('are installed into a virtual environment of the user directory, which the stage uses from then on', async () => {
    const stage = { path, python: '' };
    const standing = await lookAtPython(stage, userDir);
    assert.deepEqual([standing.installable, standing.unknown], [['lightgbm'], ['nobody']]);
    const plan = planPython(stage, standing, userDir);
    assert.ok(plan);
    assert.deepEqual(await install(plan), { state: 'done', what: 'lightgbm' });
    const now = await lookAtPython(stage, userDir);
    assert.equal(now.interpreter, join(userDir, '.venv', 'bin', 'python'));
    assert.deepEqual([now.installable, now.unknown], [[], ['nobody']]);
  });

  test('that stages list are installed together into the same environment, by modelet serve --install', async () => {
    makeWheel(folder, 'somebody');
    const typed = { type: 'modelet-stage', z: 'a', x: 1, y: 1, source: 'python-code', runtime: 'rt', wires: [] };
    const flows = [
      { id: 'rt', type: 'modelet-runtime' },
      { id: 'a', type: 'tab' },
      { ...typed, id: 'one', requirements: ['somebody == 9.9.9', 'lightgbm'] },
      { ...typed, id: 'two', requirements: ['somebody>9', ' '] },
      { ...typed, id: 'three', requirements: ['elsewhere'], runtime: 'another' },
    ];
    writeFileSync(join(userDir, 'flows.json'), JSON.stringify(flows));
    const told: string[] = [];
    const log = Log.to(recordsTo(({ message, stage }) => told.push(`${stage}: ${message}`)));
    const compiled = compileFlows(readFlows(join(userDir, 'flows.json')));
    await installAll(compiled, 'rt', log);
    assert.deepEqual(told, ['one, two: installs somebody == 9.9.9, somebody>9']);
    await installAll(compiled, 'rt', log);
    assert.equal(told.length, 1, 'it is there');
    const requirements = ['somebody<9', 'somebody[extra]>=9', 'nobody'];
    const { installable } = await lookAtPython({ path: '', python: '', requirements }, userDir);
    assert.deepEqual(installable, ['somebody<9', 'nobody']);
  });

  test('are not installed for an interpreter of the machine that the stage names', async () => {
    const stage = { path, python: 'python3' };
    assert.equal(planPython(stage, await lookAtPython(stage, userDir), userDir), null);
  });

  test('are told of where the file is not Python or there is no interpreter', async () => {
    writeFileSync(path, 'def (');
    assert.deepEqual((await lookAtPython({ path, python: '' }, userDir)).installable, []);
    await assert.rejects(lookAtPython({ path, python: join(folder, 'none') }, userDir), { code: 'config_invalid' });
  });
});

describe('the requirements.txt beside a Python file', { skip: WITHOUT_PYTHON }, () => {
  const place = join(folder, 'beside');
  const stage = { path: join(place, 'model.py'), python: '' };
  before(() => {
    mkdirSync(join(place, 'wheels'), { recursive: true });
    writeFileSync(stage.path, 'import nobody\n');
    makeWheel(join(place, 'wheels'), 'nobody');
  });

  test('is null for a stage without a file', () => assert.equal(planRequirements(stage, folder), null));

  test('is installed into .venv beside the file, which the stage uses from then on, and again when it changes', async () => {
    writeFileSync(join(place, 'requirements.txt'), '--no-index\n./wheels/nobody-9.9.9-py3-none-any.whl\n');
    assert.deepEqual((await lookAtPython(stage, folder)).unknown, ['nobody']);
    const plan = planRequirements(stage, folder);
    assert.ok(plan);
    assert.deepEqual(await install(plan), { state: 'done', what: 'requirements.txt' });
    const now = await lookAtPython(stage, folder);
    assert.deepEqual([now.interpreter, now.unknown], [join(place, '.venv', 'bin', 'python'), []]);
    makeWheel(join(place, 'wheels'), 'another');
    writeFileSync(stage.path, 'import nobody\nimport another\n');
    writeFileSync(join(place, 'requirements.txt'), '--no-index\n--find-links wheels\nnobody\nanother\n');
    const again = planRequirements(stage, folder);
    assert.equal(again?.commands.length, 1, 'the environment is there already');
    assert.equal((await install(again as InstallPlan)).state, 'done');
    assert.deepEqual((await lookAtPython(stage, folder)).unknown, []);
  });

  test('goes into the environment that the stage names, and not into a Python of the machine', () => {
    const python = join(place, '.venv', 'bin', 'python');
    assert.equal(planRequirements({ ...stage, python }, folder)?.commands[0]?.[0], python);
    assert.equal(planRequirements({ ...stage, python: 'python3' }, folder), null);
  });

  test('is not installed by a Python that cannot make environments, and leaves nothing behind', async () => {
    const bin = join(folder, 'bare');
    mkdirSync(bin);
    const bare = '#!/bin/sh\necho "ModuleNotFoundError: No module named \'ensurepip\'" >&2\nexit 1\n';
    writeFileSync(join(bin, 'python3'), bare, { mode: 0o755 });
    const path = join(bin, 'model.py');
    writeFileSync(path, '');
    writeFileSync(join(bin, 'requirements.txt'), 'nobody\n');
    const { PATH } = process.env;
    process.env['PATH'] = bin;
    const plan = planRequirements({ path, python: '' }, folder);
    process.env['PATH'] = PATH;
    const ended = await install(plan as InstallPlan);
    assert.equal(ended.state === 'failed' && ended.code, 'no_venv');
    assert.equal(existsSync(join(bin, '.venv')), false);
  });
});

describe('an installation', () => {
  test('that fails keeps the end of its output, and leaves no process behind', async () => {
    const code = [
      'const { pid } = require("child_process").spawn("sleep", ["999"], { stdio: "inherit" });',
      'console.log("x".repeat(9000), pid);',
      'process.exitCode = 3;',
      'setTimeout(process.exit, 1);',
    ];
    const ended = await install({ what: 'it', commands: [[process.execPath, '-e', code.join('')], ['never-run']] });
    assert.ok(ended.state === 'failed', ended.state);
    assert.equal(ended.code, 'failed');
    assert.equal(ended.output.length, 4000);
    const pid = Number(/ (\d+)\s*$/.exec(ended.output)?.[1]);
    await until('its child is gone', () => !isAlive(pid));
  });

  test('that takes too long is ended', async () => {
    const ended = await install({ what: 'it', commands: [['sleep', '999']] }, new Installer(300));
    assert.deepEqual(ended, { state: 'failed', what: 'it', code: 'timed_out', output: 'ended with null' });
  });

  test('whose program does not exist fails', async () => {
    const ended = await install({ what: 'it', commands: [[join(folder, 'no-program')]] });
    assert.ok(ended.state === 'failed' && ended.code === 'failed', ended.state);
  });
});
