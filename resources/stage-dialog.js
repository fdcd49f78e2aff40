/** The dialog of a stage: brings its parts together. Attaches `window.modelet.stageDialog`. */
import * as codeTabs from './code-tabs.js';
import { attach as pickPins, workersOf } from './cpu-picker.js';
import { parse } from './cpu-pins.js';
import { attach as attachBrowser } from './file-browser.js';
import * as form from './form.js';
import * as formTabs from './form-tabs.js';
import * as modules from './modules-list.js';
import { attach as attachOnnxOptions } from './onnx-options.js';
import { showDeployedStage } from './stage-deployed.js';
import * as stageFile from './stage-file.js';
import * as stageLive from './stage-live.js';
import { attach as attachMeasure } from './stage-measure.js';
import { watch as watchModel } from './stage-model.js';
import * as stagePackages from './stage-packages.js';
import { giveRuntime } from './stage-runtime.js';
import * as stageStart from './stage-start.js';
import { attach as attachTest } from './stage-test.js';
import * as stageVersions from './stage-versions.js';
import { attach as attachTaskOptions } from './task-options.js';

// The rows below the fold of the first page.
const MORE = ['python', 'init'];

// The one open dialog: its form, its pages, its code tabs, its modules, its watches of the running stage and of the
// packages, its test and its measurement, and a timer for the path's look-up. The form is kept because Node-RED takes it out of the page
// while a dialog above it is open.
let dialog = null;

function formField(property) {
  return dialog.form.find('#node-input-' + property);
}

// Numbers become text, as they do in a shell.
function isEnvironment(value) {
  return (
    value !== null &&
    typeof value === 'object' &&
    !Array.isArray(value) &&
    Object.values(value).every((content) => typeof content !== 'object')
  );
}

function pinsOf(node) {
  return parse(form.current(node, 'cpus'), 'list').entries;
}

// All workers that there may be; null: that depends on the machine, or the text has a fault.
function countWorkers(node) {
  const range = workersOf(form.current(node, 'workers'));
  return range ? (range.max ?? (pinsOf(node).length || null)) : Math.max(1, pinsOf(node).length);
}

function isRange(text) {
  const range = workersOf(text);
  return Boolean(range) && range.min !== range.max;
}

const checks = {
  name: form.wired,
  code(v) {
    return String(v).trim() !== '' || this._('modelet-stage.error.code');
  },
  module(v) {
    const problem = modules.problemOfModule(String(v).trim());
    return !problem || form.fail(this, 'module', problem.error, problem.values);
  },
  libs(v) {
    const problem = modules.problemOf(v);
    if (!problem) return true;
    return form.fail(this, 'libs', problem.error, problem.values).replace(': ', ': "' + problem.name + '" ');
  },
  requirements(v) {
    const problem = stagePackages.problemOf(v);
    return !problem || form.fail(this, 'requirements', problem.error, problem.values);
  },
  cpus(v) {
    const max = window.modelet.formats.MOST_WORKERS;
    const { entries } = parse(v, 'list');
    return entries.length <= max || form.fail(this, 'cpus', 'tooMany', { max });
  },
  workers(v) {
    const isRemote = form.current(this, 'placement') === 'remote';
    return !(isRemote && isRange(v)) || form.fail(this, 'workers', 'hostsRange');
  },
  placement(v) {
    const runtime = RED.nodes.node(form.current(this, 'runtime'));
    return !(v === 'remote' && runtime && !runtime.broker) || form.fail(this, 'placement', 'noBroker');
  },
  isolation(v) {
    const reason = { onnx: 'native', task: 'taskNative', python: 'noThreads', 'python-code': 'noThreads' }[
      form.current(this, 'source')
    ];
    return !(v === 'thread' && reason) || form.fail(this, 'isolation', reason);
  },
  concurrency(v) {
    const reason = { onnx: 'onnxInTurn', task: 'taskInTurn' }[form.current(this, 'source')];
    return !(Number(v) > 1 && reason) || form.fail(this, 'concurrency', reason);
  },
  env(v) {
    if (String(v).trim() === '') return true;
    const value = JSON.parse(v);
    if (!(Array.isArray(value) ? value.every(isEnvironment) : isEnvironment(value)))
      return form.fail(this, 'env', 'env');
    const workers = countWorkers(this);
    const fits = !Array.isArray(value) || workers === null || value.length === workers;
    return fits || form.fail(this, 'env', 'envCount', { count: value.length, workers });
  },
  versions(v) {
    const problem = stageVersions.problemOf(this, stageVersions.rowsOf({ versions: v, shares: this.shares }));
    return !problem || form.fail(this, 'versions', problem);
  },
};

// Habits from the function node that cannot work in another process.
const NODE_RED_ONLY = /\b(?:node\.(?:send|status|on|done)|(?:flow|global|context)\.(?:get|set|keys))\b/;

function showHint(node, page) {
  const predict = 'code.' + (formField('predict').val() || 'item');
  const keys = { setup: 'start', code: predict, teardown: 'stop' };
  const inPython = { setup: 'pythonStart', code: predict.replace('code', 'pythonCode'), teardown: 'stop' };
  const isPython = page.language === 'python';
  const code = isPython ? '' : page.editor.getValue().replace(/\/\/.*|\/\*[\s\S]*?\*\//g, '');
  const match = NODE_RED_ONLY.exec(code);
  page.hint.html(node._('modelet-stage.tip.' + (isPython ? inPython : keys)[page.property]));
  if (!match) return;
  const warning = $('<div class="modelet-bad">').append('<i class="fa fa-warning"></i> ').prependTo(page.hint);
  warning.append(node._('modelet-stage.tip.notHere', { name: match[0] }));
}

// For other sources it has what Node-RED is to install for them.
function ownLibs(node) {
  return form.current(node, 'source') === 'inline' ? node.libs || [] : [];
}

function variablesOf(libs) {
  return libs.filter((lib) => !modules.problemOf([lib])).map((lib) => lib.var);
}

function openTabs(node) {
  const page = (id, property) => ({ id: 'modelet-stage-' + id, property, label: node._('modelet-stage.tab.' + id) });
  const language = stageStart.languageOf(form.current(node, 'source')) || 'javascript';
  const tabs = codeTabs.create({
    node,
    language,
    setup: { id: 'modelet-stage-modules', label: stageStart.labelOf(node, language) },
    variables: variablesOf(ownLibs(node)),
    tabs: 'modelet-stage-tabs',
    container: $('#modelet-stage-pages'),
    pages: [page('start', 'setup'), page('code', 'code'), page('stop', 'teardown')],
    active: 'modelet-stage-code',
    height: 200,
    title: (open) => open.label,
    onchange: (open) => showHint(node, open),
  });
  $('#node-input-predict').on('change', () => {
    for (const open of tabs.pages) showHint(node, open);
  });
  return tabs;
}

function listModules(node) {
  const mayInstall = RED.settings.get('externalModules.modules.allowInstall', true) !== false;
  dialog.form.find('#modelet-stage-no-install').toggle(!mayInstall);
  return modules.create({
    node,
    list: dialog.form.find('#modelet-stage-libs'),
    libs: ownLibs(node),
    onchange() {
      // A row that was taken out tells when it has faded away, the dialog perhaps before.
      if (dialog && dialog.id === node.id && dialog.modules) declareNames();
    },
  });
}

function listRequirements(node) {
  return stagePackages.list({
    node,
    list: dialog.form.find('#modelet-stage-requirements'),
    requirements: node.requirements || [],
    onchange() {
      if (!dialog || dialog.id !== node.id) return;
      declareNames();
      lookSoon(node);
    },
  });
}

// For the code in its language: the tab of what it needs bears a mark if there is any.
function declareNames() {
  const isPython = formField('source').val() === 'python-code';
  if (isPython) dialog.tabs.declare([], dialog.requirements.entries().length > 0);
  else dialog.tabs.declare(variablesOf(dialog.modules.entries()));
}

// The modules that Node-RED installs: all that `libs` names, used or not.
function libsOf(source) {
  if (source === 'inline') return dialog.modules.entries();
  const module = formField('module').val().trim();
  return source === 'module' && module !== '' ? [{ var: '', module }] : [];
}

function openPages(node) {
  const page = (name, marksChanges) => {
    return { id: 'modelet-stage-' + name, label: node._('modelet-stage.page.' + name), marksChanges };
  };
  return formTabs.create({
    node,
    form: dialog.form,
    list: 'modelet-stage-sections',
    pages: ['model', 'io', 'workers', 'queue', 'versions', 'live'].map((name) =>
      page(name, !['model', 'live'].includes(name)),
    ),
    texts: { bad: node._('modelet-stage.page.bad'), changed: node._('modelet-stage.page.changed') },
    onshow(id) {
      if (id === 'modelet-stage-model' && dialog.tabs) dialog.tabs.resize();
      if (id === 'modelet-stage-live') dialog.live.ask();
    },
  });
}

// With a single runtime there is nothing to choose: its row moves to the page of the workers. A runtime that is missing must
// be chosen.
function placeRuntimeRow(node) {
  let count = 0;
  RED.nodes.eachConfig((config) => {
    if (config.type === 'modelet-runtime') count += 1;
  });
  const isKnown = count === 1 && Boolean(RED.nodes.node(node.runtime));
  if (isKnown) dialog.form.find('#modelet-stage-workers').prepend(dialog.form.find('[data-row="runtime"]'));
}

function pickCpus(node) {
  const runtime = $('#node-input-runtime');
  const picker = pickPins({
    input: $('#node-input-cpus'),
    mode: 'list',
    stage: node.id,
    workers: $('#node-input-workers'),
    strict: () => Boolean(RED.nodes.node(runtime.val())?.strictPins),
    onmachine: ({ memoryMb }) => proposeMemory(node, memoryMb),
  });
  runtime.on('change', () => picker.render());
}

// The limit of a container holds for all processes together. Of an unknown number of workers, one counts.
function proposeMemory(node, limitMb) {
  if (!limitMb) return;
  const row = dialog.form.find('#modelet-stage-memory').prop('hidden', false);
  let perWorker = 0;
  const show = () => {
    const others = RED.nodes.filterNodes({ type: 'modelet-stage' }).filter(({ id }) => id !== node.id);
    const counts = [...others.map((other) => workersOf(other.workers)?.max), countWorkers(node)];
    const workers = counts.reduce((sum, count) => sum + (count || 1), 0);
    perWorker = window.modelet.sizing.memoryPerWorker(limitMb, workers);
    const text = 'modelet-stage.memory.' + (perWorker > 0 ? 'share' : 'none');
    row.find('span').text(node._(text, { limit: limitMb, workers, perWorker }));
    row.find('button').toggle(perWorker > 0);
  };
  row.find('button').on('click', () => formField('maxRssMb').val(perWorker).trigger('change'));
  formField('workers').add(formField('cpus')).on('change keyup', show);
  show();
}

// When what is typed has come to rest.
function lookSoon(node) {
  clearTimeout(dialog.timer);
  const open = dialog;
  dialog.timer = setTimeout(() => {
    stageFile.show(node, open.form);
    open.model.show();
    open.packages.show();
  }, 300);
}

function followPath(node) {
  const fields =
    '#node-input-path, #node-input-python, #node-input-model, #node-input-task, #node-input-precision, #modelet-onnx-takes';
  $(fields).on('change keyup paste input', () => lookSoon(node));
}

function followSource(node) {
  formField('source').on('change', () => {
    const source = formField('source').val();
    if (stageStart.languageOf(source)) {
      declareNames();
      dialog.tabs.resize();
    } else if (stageFile.isSource(source)) {
      formField('path').attr('placeholder', node._('modelet-stage.placeholder.path.' + source));
      dialog.form.find('#modelet-stage-path-tip').html(node._('modelet-stage.tip.path.' + source));
    }
    // Whether threads and several calls at a time make sense depends on it.
    formField('isolation').trigger('change');
    formField('concurrency').trigger('change');
    stageFile.show(node, dialog.form);
    dialog.model.show();
    dialog.packages.show();
  });
}

/** What is special about the node, as define-node.js takes it. */
const stageDialog = {
  starts: { code: stageStart.CODE.javascript.item },
  checks,
  conditions: { idleMs: (read) => isRange(read('workers')) },
  label() {
    if (this.name) return this.name;
    if (this.source === 'module' && this.module) return this.module;
    if (this.source === 'task' && this.model) return stageFile.baseName(this.model).replace(/@.*$/, '');
    return (stageFile.isSource(this.source) && stageFile.baseName(this.path)) || this._('modelet-stage.stage');
  },
  onadd() {
    // Imported and pasted stages are in the workspace already, with the runtime they came with.
    if (this.runtime || RED.nodes.node(this.id)) return;
    this.runtime = form.findRuntime(this);
    // Only a stage that is still there when the drop is through may bring a runtime along: the quick-add search
    // calls this for each preview as well.
    const stageId = this.id;
    if (!this.runtime) setTimeout(() => giveRuntime(stageId), 0);
  },
  prepare() {
    const editForm = $('#modelet-stage-form');
    const live = stageLive.watch(this, editForm);
    const packages = stagePackages.watch(this, editForm);
    const model = watchModel(this, editForm);
    dialog = { id: this.id, form: editForm, live, packages, model };
    dialog.pages = openPages(this);
    placeRuntimeRow(this);
    formField('cache')
      .on('change keyup', () => {
        editForm.find('#modelet-stage-caching').toggle(Number(formField('cache').val()) !== 0);
      })
      .trigger('change');
    formField('keyBy')
      .on('change keyup', () => {
        editForm.find('#modelet-stage-keys').toggle(formField('keyBy').val() !== '');
      })
      .trigger('change');
    dialog.tabs = openTabs(this);
    stageLive.markFailure(this, dialog.tabs);
    dialog.modules = listModules(this);
    dialog.requirements = listRequirements(this);
    dialog.versions = stageVersions.create({
      node: this,
      list: editForm.find('#modelet-stage-version-list'),
      problem: editForm.find('#modelet-stage-version-problem'),
      rows: stageVersions.rowsOf(this),
    });
    dialog.test = attachTest({ node: this, form: editForm, tabs: dialog.tabs, libs: libsOf });
    dialog.measure = attachMeasure({ node: this, form: editForm, test: dialog.test });
    stageStart.attach(this, editForm, dialog.tabs);
    pickCpus(this);
    attachBrowser({ node: this, form: editForm });
    followPath(this);
    followSource(this);
    attachOnnxOptions(this, editForm);
    attachTaskOptions(this, editForm);
    form.unfoldIfTouched(this, editForm.find('#modelet-stage-more'), MORE);
    showDeployedStage(this, editForm);
  },
  save() {
    this.libs = libsOf(formField('source').val());
    this.requirements = dialog.requirements.entries();
    Object.assign(this, stageVersions.propertiesOf(dialog.versions.entries()));
    dialog.tabs.save();
    return dialog.measure.save();
  },
  close() {
    if (!dialog || dialog.id !== this.id) return;
    clearTimeout(dialog.timer);
    dialog.live.stop();
    dialog.test.stop();
    dialog.measure.stop();
    dialog.packages.stop();
    dialog.model.stop();
    dialog.tabs.destroy();
    dialog = null;
  },
  oneditresize(size) {
    if (!dialog) return;
    dialog.test.resize();
    dialog.pages.resize();
    // The form scrolls; in a tall window the code gets what the other rows leave over.
    dialog.tabs.resize(Math.max(180, Math.round(size.height * 0.4)));
  },
};

window.modelet ??= {};
window.modelet.stageDialog = stageDialog;
